// Freezes a module: attributes that `forward` never changes become constants.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>

namespace sconce {

/**
 * Returns a module with only `forward`. Its calls are inlined, and its weights are constants; attributes that `forward`
 * writes stay attributes. Used instead of `torch::jit::freeze`, whose passes change values: they merge -0.0 and 0.0,
 * drop additions of 0 (although -0.0 + 0 is 0.0), and fold batch norms along a wrong dimension.
 * @returns nothing for a graph that chooses a module at run time, or that forks
 */
std::optional<torch::jit::Module> freeze_weights(const torch::jit::Module& module);

}  // namespace sconce
