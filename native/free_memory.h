#pragma once

namespace sconce {

/** Gives memory that was freed back to the system, which malloc else keeps: see libtorch-env.ts. */
void give_back_free_memory();

}  // namespace sconce
