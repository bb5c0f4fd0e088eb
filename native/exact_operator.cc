#include "exact_operator.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/jit/frontend/error_report.h>
#include <torch/csrc/jit/frontend/schema_matching.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "error.h"

namespace sconce {
namespace {

using c10::FunctionSchema;
using c10::TypeKind;
using torch::jit::NamedValue;
using torch::jit::Operator;

TypeKind kind_without_optional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind();
}

bool is_number(TypeKind kind) {
  return kind == TypeKind::BoolType || kind == TypeKind::IntType || kind == TypeKind::FloatType || kind == TypeKind::NumberType;
}

/** A tensor without dimensions, made from a number. Type promotion treats it as a Python number, not as a tensor. */
at::Tensor wrapped_number(const c10::Scalar& number) {
  auto tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/** Marks arguments that must reach the operator unchanged: a bool for a number, or a number for a tensor. */
struct Loose {
  std::vector<bool> arguments;
  bool any_number_for_tensor = false;
  bool any() const { return std::find(arguments.begin(), arguments.end(), true) != arguments.end(); }
};

/** Whether the operator only checks its arguments: it returns nothing and writes to no tensor. */
bool only_checks(const FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  return schema.returns().empty() &&
         std::none_of(arguments.begin(), arguments.end(), [](const auto& each) { return each.alias_info() != nullptr; });
}

/**
 * Registers the operator again under a unique name and with looser types, so that TorchScript chooses no other
 * overload.
 */
std::shared_ptr<Operator> loosened(const std::shared_ptr<Operator>& exact, const Loose& loose) {
  const auto& schema = exact->schema();
  std::string name = schema.name() + "." + schema.overload_name() + ".";
  for (const bool each : loose.arguments) name += each ? '1' : '0';
  for (const char* separator : {"::", "."}) {
    for (size_t at = name.find(separator); at != std::string::npos; at = name.find(separator)) {
      name.replace(at, std::string(separator).size(), "__");
    }
  }
  name = "sconce_exact::" + name;
  if (const auto known = torch::jit::findOperatorFor({name, ""})) return known;

  std::vector<c10::Argument> arguments;
  std::vector<size_t> tensors;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& given = schema.arguments()[i];
    if (!loose.arguments[i]) {
      arguments.push_back(given);
      continue;
    }
    if (kind_without_optional(given.type()) == TypeKind::TensorType) tensors.push_back(i);
    arguments.emplace_back(given.name(), c10::AnyType::get(), std::nullopt, given.default_value(), given.kwarg_only());
  }
  const size_t count = arguments.size();
  auto run = [operation = exact->getOperation(), tensors, count](torch::jit::Stack& stack) mutable {
    for (const size_t place : tensors) {
      c10::IValue& value = stack[stack.size() - count + place];
      if (value.isScalar()) value = wrapped_number(value.toScalar());
    }
    operation(stack);
  };
  const auto kind = only_checks(schema) ? c10::AliasAnalysisKind::CONSERVATIVE : c10::AliasAnalysisKind::FROM_SCHEMA;
  torch::jit::registerOperator(Operator(name, "", std::move(arguments), schema.returns(), run, kind));
  return torch::jit::findOperatorFor({name, ""});
}

class ExactOperator final : public torch::jit::SugaredValue {
 public:
  explicit ExactOperator(std::string name) : name_(std::move(name)) {}

  std::string kind() const override { return "operator " + name_; }

  std::shared_ptr<torch::jit::SugaredValue> call(const torch::jit::SourceRange& location, torch::jit::GraphFunction& function,
                                                 at::ArrayRef<NamedValue> given, at::ArrayRef<NamedValue> keywords,
                                                 size_t) override {
    const size_t dot = name_.find('.');
    const c10::OperatorName full(name_.substr(0, dot), dot == std::string::npos ? "" : name_.substr(dot + 1));
    auto exact = torch::jit::findOperatorFor(full);
    if (!exact) refuse_weights("libtorch has no operator " + name_);
    Call call{location, *function.graph(), given.vec(), keywords.vec()};
    Loose loose = adapt(call, exact->schema());
    // For a number, `add.Scalar` computes the same as `add.Tensor`, and later passes recognize it.
    if (loose.any_number_for_tensor && has_scalar_form(full)) {
      if (const auto scalar = torch::jit::findOperatorFor({full.name, full.overload_name == "Tensor" ? "Scalar" : "Scalar_mode"})) {
        const Loose of_scalar = adapt(call, scalar->schema());
        if (!of_scalar.any()) {
          exact = scalar;
          loose = of_scalar;
        }
      }
    }
    const auto& schema = exact->schema();
    // TorchScript silently runs another overload of a block-listed schema: it reads the int of `view.dtype` as a size.
    const bool is_renamed = loose.any() || only_checks(schema) || torch::jit::isBlockListedSchema(schema);
    auto* node = is_renamed ? nullptr : insert(call, *exact);
    if (node == nullptr) node = insert(call, *loosened(exact, loose));
    if (node == nullptr) throw torch::jit::ErrorReport(location) << "libtorch does not take " << name_ << " as it is called";
    return result(call.graph, node);
  }

 private:
  struct Call {
    const torch::jit::SourceRange& location;
    torch::jit::Graph& graph;
    std::vector<NamedValue> given;
    std::vector<NamedValue> keywords;
  };

  static bool has_scalar_form(const c10::OperatorName& full) {
    const auto& [name, overload] = full;
    if (overload != "Tensor" && overload != "Tensor_mode") return false;
    return name == "aten::add" || name == "aten::sub" || name == "aten::mul" || name == "aten::div";
  }

  /**
   * Converts integers to floats, and retypes lists, where the schema needs it. Returns the arguments that TorchScript
   * would convert wrongly.
   */
  static Loose adapt(Call& call, const FunctionSchema& schema) {
    Loose loose{std::vector<bool>(schema.arguments().size(), false)};
    const auto look = [&](NamedValue& value, std::optional<int> place) {
      if (!place || static_cast<size_t>(*place) >= schema.arguments().size()) return;
      const auto& argument = schema.arguments()[*place];
      const auto wanted = kind_without_optional(argument.type());
      auto* const held = value.value(call.graph);
      const auto kind = held->type()->kind();
      if (wanted == TypeKind::NumberType && kind == TypeKind::BoolType) loose.arguments[*place] = true;
      if (wanted == TypeKind::TensorType && is_number(kind) && argument.alias_info() == nullptr) {
        loose.arguments[*place] = true;
        loose.any_number_for_tensor = kind != TypeKind::BoolType;
      }
      if (auto* const list = widened(call, argument.type(), held)) value = NamedValue(call.location, argument.name(), list);
      if (wanted == TypeKind::FloatType && kind == TypeKind::IntType) {
        value = NamedValue(call.location, argument.name(), call.graph.insert(c10::aten::Float, {held}));
      }
    };
    for (size_t i = 0; i < call.given.size(); ++i) look(call.given[i], static_cast<int>(i));
    for (auto& keyword : call.keywords) look(keyword, schema.argumentIndexWithName(keyword.name()));
    return loose;
  }

  /**
   * Retypes a list for the operator: tensors to optional tensors, ints or floats to numbers. Null if the list needs no
   * change, or is not built in the graph.
   */
  static torch::jit::Value* widened(const Call& call, const c10::TypePtr& wanted, torch::jit::Value* given) {
    const auto list = wanted->cast<c10::ListType>();
    const auto element = list ? list->getElementType()->kind() : TypeKind::AnyType;
    const bool is_wider = element == TypeKind::OptionalType || element == TypeKind::NumberType;
    if (!is_wider || given->node()->kind() != c10::prim::ListConstruct) return nullptr;
    if (given->type()->isSubtypeOf(*wanted)) return nullptr;
    return call.graph.insertNode(call.graph.createList(list->getElementType(), given->node()->inputs()))->output();
  }

  /** Inserts a node that calls the operator. Null if TorchScript would run another overload. */
  static torch::jit::Node* insert(const Call& call, const Operator& exact) {
    const auto& schema = exact.schema();
    const auto matched = torch::jit::matchSchema(schema, call.location, call.graph, call.given, call.keywords);
    auto* const node = call.graph.insertNode(call.graph.create(c10::Symbol::fromQualString(schema.name()), matched.inputs, 0));
    node->setSourceRange(call.location);
    for (const auto& type : matched.return_types) node->addOutput()->setType(type);
    const auto* const chosen = node->maybeOperator();
    if (chosen != nullptr && chosen->schema().operator_name() == schema.operator_name()) return node;
    node->destroy();
    return nullptr;
  }

  static std::shared_ptr<torch::jit::SugaredValue> result(torch::jit::Graph& graph, torch::jit::Node* node) {
    if (node->outputs().size() == 1) return std::make_shared<torch::jit::SimpleValue>(node->output());
    auto* const tuple = graph.insertNode(graph.createTuple(node->outputs()));
    return std::make_shared<torch::jit::SimpleValue>(tuple->output());
  }

  std::string name_;
};

}  // namespace

std::shared_ptr<torch::jit::SugaredValue> exact_operator(std::string name) {
  return std::make_shared<ExactOperator>(std::move(name));
}

}  // namespace sconce
