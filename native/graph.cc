#include "graph.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

namespace sconce {

bool any_node(torch::jit::Block* block, const std::function<bool(torch::jit::Node*)>& test) {
  for (auto* node : block->nodes()) {
    if (test(node)) return true;
    for (auto* inner : node->blocks()) {
      if (any_node(inner, test)) return true;
    }
  }
  return false;
}

std::vector<torch::jit::Node*> nodes_of(torch::jit::Block* block, const std::function<bool(torch::jit::Node*)>& test) {
  std::vector<torch::jit::Node*> nodes;
  any_node(block, [&](torch::jit::Node* node) {
    if (test(node)) nodes.push_back(node);
    return false;
  });
  return nodes;
}

std::vector<torch::jit::Node*> nodes_of(torch::jit::Block* block) {
  return nodes_of(block, [](const torch::jit::Node*) { return true; });
}

bool writes(const torch::jit::Node* node) {
  const auto* schema = node->maybeSchema();
  if (schema == nullptr) return false;
  const auto& arguments = schema->arguments();
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const auto& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); });
}

bool is_any_of(const Kinds& kinds, const torch::jit::Node* node) { return kinds.count(node->kind().toQualString()) != 0; }

bool reads_only_metadata(const torch::jit::Node* node, size_t input) {
  static const Kinds kinds = {"aten::size", "aten::dim", "aten::len", "aten::numel", "aten::__is__", "prim::dtype", "prim::device"};
  return is_any_of(kinds, node) || (node->kind() == c10::aten::expand_as && input == 1);
}

bool has_tensors(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) return true;
  const auto inner = type->containedTypes();
  return std::any_of(inner.begin(), inner.end(), has_tensors);
}

std::optional<c10::IValue> constant_argument(const torch::jit::Node* node, const char* name) {
  const auto place = node->schema().argumentIndexWithName(name);
  if (!place) return std::nullopt;
  return torch::jit::toIValue(node->input(*place));
}

}  // namespace sconce
