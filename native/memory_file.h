// Files in memory.
#pragma once

namespace sconce {

/**
 * Creates an empty, unnamed file that disappears with its descriptor, which the caller owns. Throws `run_failed` if the
 * system has none.
 */
int create_memory_file();

}  // namespace sconce
