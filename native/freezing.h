// Makes constants of the attributes that a module's `forward` only reads.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>

namespace sconce {

/**
 * A module with `forward` alone, whose calls are inlined and whose weights are constants. Attributes that `forward` writes stay attributes.
 *
 * Stands for `torch::jit::freeze`, whose passes change values: it takes -0.0 and 0.0 for one constant, drops the addition of 0 (which makes
 * 0.0 of -0.0), and folds batch norms along a wrong dimension.
 *
 * @returns none where an attribute cannot be found, such as those of a module that is chosen while it runs
 */
std::optional<torch::jit::Module> freeze_weights(const torch::jit::Module& module);

}  // namespace sconce
