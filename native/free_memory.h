#pragma once

namespace sconce {

/** Returns freed memory to the system. By default malloc keeps it in this process; see src/engine/libtorch-env.ts. */
void give_back_free_memory();

}  // namespace sconce
