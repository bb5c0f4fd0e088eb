#pragma once

namespace sconce {

/**
 * Returns freed memory to the system. Otherwise malloc keeps it, because src/engine/libtorch-env.ts configures it so.
 */
void give_back_free_memory();

}  // namespace sconce
