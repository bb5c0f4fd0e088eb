// Questions about TorchScript's graphs.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <optional>
#include <string_view>
#include <unordered_set>

namespace sconce {

/** Whether `test` says so of any node, in blocks within blocks too. */
bool any_node(torch::jit::Block* block, const std::function<bool(torch::jit::Node*)>& test);

/** Whether a node writes into a tensor that it was given. */
bool writes(const torch::jit::Node* node);

/** Names of operators, such as "aten::relu". */
using Kinds = std::unordered_set<std::string_view>;

bool is_any_of(const Kinds& kinds, const torch::jit::Node* node);

/** The value of an argument of this name; none where there is no such argument, or it is not constant. */
std::optional<c10::IValue> constant_argument(const torch::jit::Node* node, const char* name);

}  // namespace sconce
