// Decides where tensors of a graph may keep oneDNN's layout.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Lets packed convolutions in `forward` of a frozen module return oneDNN's layout, wherever it only reaches nodes that
 * do not depend on layout. The graph must not contain in-place writes.
 */
void free_layout(const torch::jit::Module& frozen);

}  // namespace sconce
