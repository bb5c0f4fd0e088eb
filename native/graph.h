// Questions about TorchScript's graphs.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <functional>

namespace sconce {

/** Whether `test` says so of any node, in blocks within blocks too. */
bool any_node(torch::jit::Block* block, const std::function<bool(torch::jit::Node*)>& test);

/** Whether a node writes into a tensor that it was given. */
bool writes(const torch::jit::Node* node);

}  // namespace sconce
