// Queries on TorchScript graphs.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace sconce {

/** Whether `test` is true for any node, also in nested blocks. */
bool any_node(torch::jit::Block* block, const std::function<bool(torch::jit::Node*)>& test);

/** The nodes of a block and of its nested blocks for which `test` is true, in order. */
std::vector<torch::jit::Node*> nodes_of(torch::jit::Block* block, const std::function<bool(torch::jit::Node*)>& test);
std::vector<torch::jit::Node*> nodes_of(torch::jit::Block* block);

/** Whether a node writes to one of its arguments, such as a tensor or list. */
bool writes(const torch::jit::Node* node);

/** Names of operators, such as "aten::relu". */
using Kinds = std::unordered_set<std::string_view>;

bool is_any_of(const Kinds& kinds, const torch::jit::Node* node);

/** Whether a node reads only the sizes, the identity or similar metadata of its input with this index. */
bool reads_only_metadata(const torch::jit::Node* node, size_t input);

bool has_tensors(const c10::TypePtr& type);

/** Value of the argument with this name; none if it does not exist or is not constant. */
std::optional<c10::IValue> constant_argument(const torch::jit::Node* node, const char* name);

}  // namespace sconce
