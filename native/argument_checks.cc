#include "argument_checks.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "graph.h"

namespace sconce {
namespace {

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
 * Whether the node is `lstm.input`. The overload `lstm.data`, for packed sequences, has no bool as its fourth argument.
 */
bool is_padded_lstm(torch::jit::Node* node) {
  return node->kind() == c10::Symbol::fromQualString("aten::lstm") && node->inputs().size() > 3 &&
         node->input(3)->type()->kind() == c10::TypeKind::BoolType;
}

/**
 * Index of the element that a `TupleIndex` node with a constant index reads from a tuple of `size` elements; none for
 * any other node.
 */
std::optional<size_t> index_of(const torch::jit::Node* node, size_t size) {
  if (node->kind() != c10::prim::TupleIndex) return std::nullopt;
  const auto index = torch::jit::constant_as<int64_t>(node->input(1));
  if (!index) return std::nullopt;
  return static_cast<size_t>(*index < 0 ? *index + static_cast<int64_t>(size) : *index);
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

/** Keeps libtorch from removing the computation of `value`: adds an error that depends on it and never occurs. */
void use(torch::jit::Graph& graph, torch::jit::Value* value) {
  const std::string text = "sconce: the result of a call that nothing uses";
  raise_if(graph, graph.insert(c10::aten::__is__, {value, text}), text);
}

bool is_call(const torch::jit::Node* node) {
  return node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
}

bool is_call_without_result(const torch::jit::Node* node) {
  return is_call(node) && node->output()->type()->kind() == c10::TypeKind::NoneType;
}

/** Whether every use of a value is a call without a result. libtorch removes such calls, and the value with them. */
bool goes_with_calls(const torch::jit::Value* value) {
  const auto& uses = value->uses();
  return std::all_of(uses.begin(), uses.end(), [](const auto& use) { return is_call_without_result(use.user); });
}

/** Appends `result` to `unused` if nothing uses it; for a tuple that is not returned, appends its unused elements. */
void add_unused(torch::jit::Graph& graph, torch::jit::Value* result, std::vector<torch::jit::Value*>& unused) {
  if (result->type()->kind() != c10::TypeKind::TupleType) {
    if (!result->hasUses() && result->type()->kind() != c10::TypeKind::NoneType) unused.push_back(result);
    return;
  }
  const auto uses = result->uses();
  auto* const unpacked = graph.insertNode(graph.createTupleUnpack(result));
  for (const auto& use : uses) {
    if (use.user->kind() == c10::prim::TupleUnpack) {
      for (size_t i = 0; i < unpacked->outputs().size(); ++i) use.user->output(i)->replaceAllUsesWith(unpacked->output(i));
    } else if (const auto index = index_of(use.user, unpacked->outputs().size())) {
      use.user->output()->replaceAllUsesWith(unpacked->output(*index));
    } else if (use.user == graph.return_node()) {
      return;
    }
  }
  for (auto* const element : unpacked->outputs()) add_unused(graph, element, unused);
}

/**
 * Keeps libtorch from removing calls whose results nothing uses: PyTorch runs these calls, and their layers may refuse
 * an input.
 */
void use_results_of_calls(torch::jit::Graph& graph) {
  for (auto* const call : nodes_of(graph.block())) {
    if (!is_call(call)) continue;
    const torch::jit::WithInsertPoint after(call->next());
    std::vector<torch::jit::Value*> unused;
    add_unused(graph, call->output(), unused);
    // In a traced module, a layer whose result nothing uses is a call that returns None. Its input tensors are kept
    // instead.
    if (is_call_without_result(call)) {
      for (auto* const input : call->inputs()) {
        const bool is_module = input->type()->kind() == c10::TypeKind::ClassType;
        if (!is_module && has_tensors(input->type()) && goes_with_calls(input)) unused.push_back(input);
      }
    }
    for (auto* const value : unused) use(graph, value);
  }
}

/** Keeps calls with unused results in all methods. Call this before inlining, which removes such calls. */
void use_results_of_calls(const torch::jit::Module& module) {
  for (auto* const function : module._ivalue()->compilation_unit()->get_functions()) {
    if (auto* const graph_function = torch::jit::tryToGraphFunction(*function)) use_results_of_calls(*graph_function->graph());
  }
}

void check_arguments(torch::jit::Graph& graph) {
  for (auto* const node : nodes_of(graph.block())) {
    if (is_padded_lstm(node)) check_lstm(graph, node);
    if (is_integer_remainder(node)) check_remainder(graph, node);
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
