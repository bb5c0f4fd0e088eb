#include "graph.h"

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

bool writes(const torch::jit::Node* node) {
  const auto* schema = node->maybeSchema();
  if (schema == nullptr) return false;
  const auto& arguments = schema->arguments();
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const auto& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); });
}

}  // namespace sconce
