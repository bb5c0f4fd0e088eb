// Freezes a module: attributes that `forward` never changes become constants.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>

namespace sconce {

/**
 * Returns a module with only `forward`. Its calls are inlined, and weights that it never changes are constants.
 * `torch::jit::freeze` is not used, because it changes values: for example, it merges -0.0 and 0.0.
 * @returns nothing for a graph that chooses a module at run time, or that forks
 */
std::optional<torch::jit::Module> freeze_weights(const torch::jit::Module& module);

}  // namespace sconce
