#pragma once

namespace sconce {

/** Returns freed memory to the system, which malloc would otherwise keep: see libtorch-env.ts. */
void give_back_free_memory();

}  // namespace sconce
