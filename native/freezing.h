// Makes constants of the attributes that a module's `forward` only reads.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>

namespace sconce {

/**
 * A module with `forward` alone, whose calls are inlined and whose weights are constants. Attributes that `forward` writes stay attributes.
 *
 * Replaces `torch::jit::freeze`, whose passes change values. They merge the constants -0.0 and 0.0. They drop the addition of 0, though
 * -0.0 + 0 is 0.0. They fold batch norms along a wrong dimension.
 *
 * @returns nothing for a graph that chooses a module at run time, or forks
 */
std::optional<torch::jit::Module> freeze_weights(const torch::jit::Module& module);

}  // namespace sconce
