#include "passes.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/library.h>

#include <limits>
#include <string>

#include "error.h"
#include "graph.h"

namespace sconce {
namespace {

/** Whether a node divides integers with a machine instruction that ends the process for some operands. */
bool is_division_of_numbers(const torch::jit::Node* node) {
  static const Kinds kinds = {"aten::remainder", "aten::floordiv", "aten::divmod", "aten::gcd", "aten::__round_to_zero_floordiv"};
  if (!is_any_of(kinds, node) || node->inputs().size() != 2) return false;
  const auto may_be_integer = [](const torch::jit::Value* value) {
    return value->type()->kind() == c10::TypeKind::IntType || value->type()->kind() == c10::TypeKind::NumberType;
  };
  if (!may_be_integer(node->input(0)) || !may_be_integer(node->input(1))) return false;
  // The smallest integer may be either operand of gcd.
  if (node->kind() == c10::aten::gcd) return true;
  const auto divisor = torch::jit::toIValue(node->input(1));
  return !divisor || !divisor->isInt() || divisor->toInt() == 0 || divisor->toInt() == -1;
}

/** Throws for integers whose division ends the process. Returns the divisor. */
c10::Scalar checked_divisor(const c10::Scalar& dividend, const c10::Scalar& divisor, std::string_view name) {
  if (!dividend.isIntegral(false) || !divisor.isIntegral(false)) return divisor;
  const int64_t from = dividend.toLong(), by = divisor.toLong();
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  const auto refuse = [&](const char* why) {
    throw CodedError("run_failed", std::string(why) + ": " + std::string(name) + "(" + std::to_string(from) + ", " + std::to_string(by) + ")");
  };
  const bool is_overflow = (from == least && by == -1) || (name == "aten::gcd" && from == -1 && by == least);
  if (is_overflow) refuse("integer division beyond 64 bits");
  // libtorch itself refuses a zero in the other operators.
  if (by == 0 && (name == "aten::remainder" || name == "aten::__round_to_zero_floordiv")) refuse("integer modulo by zero");
  return divisor;
}

int64_t checked_int_divisor(int64_t dividend, int64_t divisor, std::string_view name) {
  return checked_divisor(dividend, divisor, name).toLong();
}

at::Tensor checked_lstm_input(const at::Tensor& input, at::TensorList weights) {
  if (input.size(-1) == weights.at(0).size(1)) return input;
  throw CodedError("run_failed", "the input of an LSTM has another width than its weights");
}

TORCH_LIBRARY_FRAGMENT(sconce, library) {
  // The checks of divisors have effects, so libtorch neither removes them nor computes them with constants at load.
  const auto effects = c10::AliasAnalysisKind::CONSERVATIVE;
  library.def(torch::schema("divisor.int(int dividend, int divisor, str name) -> int", effects), &checked_int_divisor);
  library.def(torch::schema("divisor.Scalar(Scalar dividend, Scalar divisor, str name) -> Scalar", effects), &checked_divisor);
  library.def("lstm_input(Tensor(a) input, Tensor[] weights) -> Tensor(a)", &checked_lstm_input);
}

/** Replaces the divisor by the result of a check. */
void check_division(torch::jit::Graph& graph, torch::jit::Node* node) {
  const torch::jit::WithInsertPoint before(node);
  const auto name = c10::Symbol::fromQualString("sconce::divisor");
  node->replaceInput(1, graph.insert(name, {node->input(0), node->input(1), std::string(node->kind().toQualString())}));
}

/**
 * Whether the node is `lstm.input`. The overload `lstm.data`, for packed sequences, has no bool as its fourth argument.
 */
bool is_padded_lstm(torch::jit::Node* node) {
  return node->kind() == c10::Symbol::fromQualString("aten::lstm") && node->inputs().size() > 3 &&
         node->input(3)->type()->kind() == c10::TypeKind::BoolType;
}

/** Replaces the input by the result of a check. */
void check_lstm(torch::jit::Graph& graph, torch::jit::Node* node) {
  const torch::jit::WithInsertPoint before(node);
  node->replaceInput(0, graph.insert(c10::Symbol::fromQualString("sconce::lstm_input"), {node->input(0), node->input(2)}));
}

void check_arguments(torch::jit::Graph& graph) {
  for (auto* const node : nodes_of(graph.block())) {
    if (is_padded_lstm(node)) check_lstm(graph, node);
    if (is_division_of_numbers(node)) check_division(graph, node);
  }
}

}  // namespace

void check_arguments(torch::jit::Module& module) {
  for (const auto& method : module.get_methods()) {
    const auto graph = method.graph();
    torch::jit::Inline(*graph);
    check_arguments(*graph);
  }
}

}  // namespace sconce
