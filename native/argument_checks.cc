#include "argument_checks.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <set>
#include <string>
#include <vector>

#include "graph.h"

namespace sconce {
namespace {

/** Inserts code that raises `message` when `is_wrong` is true. */
void raise_if(torch::jit::Graph& graph, torch::jit::Value* is_wrong, const std::string& message) {
  auto* const branch = graph.insertNode(graph.create(c10::prim::If, {is_wrong}, 0));
  auto* const raising = branch->addBlock();
  branch->addBlock();
  const torch::jit::WithInsertPoint inside(raising);
  auto* const text = graph.insertConstant(message);
  auto* const no_class = graph.insertNode(graph.createNone())->output();
  graph.insertNode(graph.create(c10::prim::RaiseException, {text, no_class}, 0));
}

bool is_integer_remainder(torch::jit::Node* node) {
  if (node->kind() != c10::aten::remainder || node->inputs().size() != 2) return false;
  const auto is_integer = [](torch::jit::Value* value) { return value->type()->kind() == c10::TypeKind::IntType; };
  if (!is_integer(node->input(0)) || !is_integer(node->input(1))) return false;
  const auto divisor = torch::jit::toIValue(node->input(1));
  return !divisor || divisor->toInt() == 0;
}

/**
 * Whether the node is the overload of LSTM for padded sequences: the third argument has the weights, and the fourth is
 * a bool (whether there are biases).
 */
bool is_padded_lstm(torch::jit::Node* node) {
  return node->kind() == c10::Symbol::fromQualString("aten::lstm") && node->inputs().size() > 3 &&
         node->input(3)->type()->kind() == c10::TypeKind::BoolType;
}

void check_remainder(torch::jit::Graph& graph, torch::jit::Node* node) {
  const torch::jit::WithInsertPoint before(node);
  auto* const is_zero = graph.insert(c10::aten::eq, {node->input(1), 0});
  raise_if(graph, is_zero, "integer modulo by zero");
}

void check_lstm(torch::jit::Graph& graph, torch::jit::Node* node) {
  const torch::jit::WithInsertPoint before(node);
  auto* const width = graph.insert(c10::aten::size, {node->input(0), -1});
  auto* const weight = graph.insert(c10::aten::__getitem__, {node->input(2), 0});
  auto* const expected = graph.insert(c10::aten::size, {weight, 1});
  raise_if(graph, graph.insert(c10::aten::ne, {width, expected}), "the input of an LSTM has another width than its weights");
}

/** Appends the tensors in a value: the value itself, or the elements of a tuple. */
void add_tensors(torch::jit::Graph& graph, torch::jit::Value* value, std::vector<torch::jit::Value*>& tensors) {
  if (value->type()->kind() == c10::TypeKind::TensorType) tensors.push_back(value);
  if (value->type()->kind() != c10::TypeKind::TupleType) return;
  for (auto* const element : graph.insertNode(graph.createTupleUnpack(value))->outputs()) add_tensors(graph, element, tensors);
}

/**
 * Uses the results of calls that nothing else uses. PyTorch runs such a layer, so it may refuse an input; libtorch
 * would remove it.
 */
void use_results_of_calls(torch::jit::Graph& graph) {
  std::vector<torch::jit::Node*> unused;
  any_node(graph.block(), [&](torch::jit::Node* node) {
    const bool is_call = node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
    if (is_call && !node->output()->hasUses()) unused.push_back(node);
    return false;
  });
  for (auto* const node : unused) {
    const torch::jit::WithInsertPoint after(node->next());
    std::vector<torch::jit::Value*> tensors;
    add_tensors(graph, node->output(), tensors);
    // A traced layer whose result is not used has only a call without a result.
    if (tensors.empty()) {
      for (auto* const input : node->inputs()) add_tensors(graph, input, tensors);
    }
    for (auto* const tensor : tensors) {
      auto* const count = graph.insert(c10::aten::numel, {tensor});
      raise_if(graph, graph.insert(c10::aten::lt, {count, 0}), "a tensor has a negative number of elements");
    }
  }
}

/** Applies `use_results_of_calls` to the methods of all modules, before any is inlined. Modules may share a method. */
void use_results_of_calls(const torch::jit::Module& module) {
  std::set<const torch::jit::Graph*> done;
  for (const auto& each : module.modules()) {
    for (const auto& method : each.get_methods()) {
      const auto graph = method.graph();
      if (done.insert(graph.get()).second) use_results_of_calls(*graph);
    }
  }
}

void check_arguments(torch::jit::Graph& graph) {
  std::vector<torch::jit::Node*> found;
  any_node(graph.block(), [&](torch::jit::Node* node) {
    if (is_integer_remainder(node) || is_padded_lstm(node)) found.push_back(node);
    return false;
  });
  for (auto* const node : found) {
    if (is_padded_lstm(node)) check_lstm(graph, node);
    else check_remainder(graph, node);
  }
}

}  // namespace

void check_arguments(torch::jit::Module& module) {
  use_results_of_calls(module);
  for (const auto& method : module.get_methods()) {
    const auto graph = method.graph();
    torch::jit::Inline(*graph);
    check_arguments(*graph);
  }
}

}  // namespace sconce
