// A file that lies in memory alone.
#pragma once

namespace sconce {

/** A new, empty file without a name; it is gone with its descriptor, which the caller owns. Throws `run_failed` where there is none. */
int create_memory_file();

}  // namespace sconce
