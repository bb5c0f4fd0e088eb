// Where the tensors in a graph may lie as oneDNN has them, and where not.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Has the packed convolutions of a frozen module's `forward` give what lies as oneDNN has it, as far as that only reaches nodes which do not
 * ask how it lies. The graph must write into nothing.
 */
void free_layout(const torch::jit::Module& frozen);

}  // namespace sconce
