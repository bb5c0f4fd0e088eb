// Decides which tensors of a graph may stay in oneDNN's memory layout.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Lets packed convolutions in `forward` of a frozen module return oneDNN's layout. Inserts conversions to row-major
 * tensors before nodes that do not accept any layout. The graph must not contain in-place writes.
 */
void free_layout(const torch::jit::Module& frozen);

}  // namespace sconce
