// Freezes a module: attributes that `forward` never changes become constants.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>
#include <string>

namespace sconce {

struct Frozen {
  /** A module with only `forward`. */
  torch::jit::Module module;
  /** Whether a run may change attributes that the next run reads. True if the graph does not show it. */
  bool changes_attributes;
};

/**
 * Makes a module whose `forward` is the method. Calls are inlined, and weights that the method never changes are constants.
 * `torch::jit::freeze` is not used, because it changes values: for example, it merges -0.0 and 0.0.
 * @returns nothing for a graph that chooses a module at run time, or that forks
 */
std::optional<Frozen> freeze_method(const torch::jit::Module& module, const std::string& method = "forward");

}  // namespace sconce
