// TorchScript modules (.pt), and exported programs that are not compiled. Arguments are matched by name, results by
// name or order.
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "error.h"
#include "graph.h"
#include "passes.h"
#include "tensor.h"
#include "weights.h"

namespace sconce {
namespace {

/** The interpreter rethrows errors with their types. By default it throws every error as std::runtime_error. */
[[maybe_unused]] const bool keeps_types_of_errors = FLAGS_torch_jit_enable_rethrow_caught_exception = true;

/** The source of an argument of `forward`: a declared input, or the argument's default value. */
struct Argument {
  std::optional<size_t> input;
  c10::IValue value;
};

std::vector<Argument> match_arguments(const c10::FunctionSchema& schema, const std::vector<std::string>& inputs) {
  std::vector<std::string> names;
  for (const auto& argument : schema.arguments()) names.push_back(argument.name());
  names.erase(names.begin());  // without `self`
  const std::string both =
      "forward takes " + names_text(names) + ", the model declares the inputs " + names_text(inputs);
  for (const auto& input : inputs) {
    if (std::find(names.begin(), names.end(), input) == names.end()) refuse_weights(both + ": rename one of them");
  }
  std::vector<Argument> arguments;
  for (size_t i = 1; i < schema.arguments().size(); ++i) {
    const auto& argument = schema.arguments()[i];
    const auto found = std::find(inputs.begin(), inputs.end(), argument.name());
    if (found != inputs.end()) {
      if (!c10::TensorType::get()->isSubtypeOf(*argument.type())) {
        refuse_weights("forward's argument " + argument.name() + " is " + argument.type()->annotation_str() +
               ", an input is a Tensor");
      }
      arguments.push_back({static_cast<size_t>(found - inputs.begin()), {}});
    } else if (argument.default_value()) {
      arguments.push_back({std::nullopt, *argument.default_value()});
    } else {
      refuse_weights(both + ": declare " + argument.name() + " too, or give it a default value");
    }
  }
  return arguments;
}

/** Whether a method may change attributes of the module. True in doubt, which only costs memory. */
bool changes_attributes(const torch::jit::Module& module, const std::string& method) {
  const auto frozen = freeze_method(module, method);
  return !frozen || frozen->changes_attributes;
}

bool changes_attributes(const torch::jit::Module& module, bool callable) {
  // A method keeps the weights alive, so no method may outlive this function.
  const auto methods = module.get_methods();
  return std::any_of(methods.begin(), methods.end(), [&](const torch::jit::Method& method) {
    return (callable || method.name() == "forward") && changes_attributes(module, method.name());
  });
}

/** Whether `forward` is the only method, and does not modify attributes. */
bool is_all_constant(const torch::jit::Module& module) {
  const auto methods = module.get_methods();
  return methods.size() == 1 && methods.front().name() == "forward" && !changes_attributes(module, "forward");
}

struct Loaded {
  torch::jit::Module module;
  bool is_frozen = false;
  size_t packed_layers = 0;
};

/**
 * Optimizes `forward` for inference. Results stay equal apart from rounding. A module that cannot be frozen stays
 * unchanged.
 */
Loaded prepare(torch::jit::Module module, const WeightsOptions& options) {
  if (options.callable && !is_all_constant(module)) return Loaded{std::move(module), false, 0};
  auto frozen = freeze_method(module);
  if (!frozen) return Loaded{std::move(module), false, 0};
  Loaded loaded{std::move(frozen->module), true, 0};
  module = torch::jit::Module();
  fold_batch_norms(loaded.module.get_method("forward").graph());
  if (options.pack && options.device.is_cpu()) loaded.packed_layers = pack_layers(loaded.module);
  return loaded;
}

class TorchScript final : public Weights {
 public:
  TorchScript(const WeightsOptions& options, Loaded loaded, bool keeps_state, std::optional<c10::FunctionSchema> schema)
      : module_(std::move(loaded.module)),
        keeps_state_(keeps_state),
        packed_layers_(loaded.packed_layers),
        forward_(module_.find_method("forward")),
        schema_(std::move(schema)),
        device_(options.device),
        outputs_(options.outputs) {
    if (!options.callable) arguments_ = match_arguments(*schema_, options.inputs);
    // Runs the interpreter directly, because libtorch's executor changes values: for example, it treats -0.0 as 0.0. On
    // a GPU, TorchScript files still use the executor, which fuses small kernels.
    if (options.program || (loaded.is_frozen && options.device.is_cpu())) code_.emplace(forward_->graph(), "forward");
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) override {
    torch::jit::Stack stack;
    stack.reserve(arguments_.size() + 1);
    stack.emplace_back(module_._ivalue());
    for (const auto& argument : arguments_) {
      if (argument.input) {
        stack.emplace_back(std::move(inputs[*argument.input]));
      } else {
        stack.push_back(argument.value);
      }
    }
    interpret(stack);
    return tensors_of(stack.back());
  }

  Value call(const std::string& name, const std::vector<Value>& given) override {
    const auto method = module_.find_method(name);
    if (!method) throw CodedError("run_failed", "the weights have no method " + name + "; they have " + methods_text());
    const auto& schema = schema_ && name == "forward" ? *schema_ : method->function().getSchema();
    const auto& wanted = schema.arguments();  // includes `self`
    if (given.size() >= wanted.size()) throw CodedError("tensor_invalid", counted(schema, given.size()));
    torch::jit::Stack stack;
    stack.emplace_back(module_._ivalue());
    for (size_t i = 1; i < wanted.size(); ++i) {
      if (i <= given.size()) {
        const std::string where = name + ", argument " + wanted[i].name();
        stack.push_back(value_to_ivalue(given[i - 1], wanted[i].type(), device_, where));
      } else if (wanted[i].default_value()) {
        stack.push_back(*wanted[i].default_value());
      } else {
        throw CodedError("tensor_invalid", counted(schema, given.size()));
      }
    }
    if (name == "forward") {
      interpret(stack);
    } else {
      method->function().run(stack);
    }
    return value_from_ivalue(stack.back(), name);
  }

  bool keeps_state() const override { return keeps_state_; }
  size_t packed_layers() const override { return packed_layers_; }

 private:
  void interpret(torch::jit::Stack& stack) {
    if (code_) {
      torch::jit::InterpreterState(*code_).run(stack);
    } else {
      forward_->function().run(stack);
    }
  }

  std::string methods_text() const {
    std::vector<std::string> names;
    for (const auto& method : module_.get_methods()) names.push_back(method.name());
    return names_text(names);
  }

  static std::string counted(const c10::FunctionSchema& schema, size_t given) {
    std::vector<std::string> names;
    for (const auto& argument : schema.arguments()) {
      names.push_back(argument.name() + ": " + argument.type()->annotation_str() + (argument.default_value() ? "?" : ""));
    }
    names.erase(names.begin());  // without `self`
    return schema.name() + " takes " + names_text(names) + ", received " + std::to_string(given) +
           (given == 1 ? " argument" : " arguments");
  }

  /**
   * The output tensors in a result of `forward`. Leaves out None: many networks return some outputs only in
   * training.
   */
  std::vector<at::Tensor> tensors_of(c10::IValue& result) const {
    if (result.isTensor()) {
      require_output_count(outputs_, 1);
      return {std::move(result).toTensor()};
    }
    if (result.isTensorList()) {
      const auto list = result.toTensorVector();
      require_output_count(outputs_, list.size());
      return list;
    }
    std::vector<std::string> names;
    std::vector<c10::IValue> values;
    bool is_named = true;
    if (result.isTuple()) {
      const auto& tuple = result.toTupleRef();
      const auto fields = tuple.type<c10::TupleType>()->names();
      is_named = fields.has_value();
      for (size_t i = 0; i < tuple.size(); ++i) {
        if (tuple.elements()[i].isNone()) continue;
        if (is_named) names.emplace_back((*fields)[i]);
        values.push_back(tuple.elements()[i]);
      }
    } else if (result.isGenericDict()) {
      for (const auto& entry : result.toGenericDict()) {
        if (!entry.key().isString()) refuse_weights("forward gave a dict whose keys are no strings");
        if (entry.value().isNone()) continue;
        names.push_back(entry.key().toStringRef());
        values.push_back(entry.value());
      }
    } else {
      refuse_weights("forward gave " + result.tagKind() + "; expected a tensor, or a tuple, list or dict of tensors");
    }
    std::vector<size_t> places;
    if (is_named) places = places_of_outputs(outputs_, names);
    else require_output_count(outputs_, values.size());
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < outputs_.size(); ++i) tensors.push_back(tensor_of(values[is_named ? places[i] : i], i));
    return tensors;
  }

  at::Tensor tensor_of(const c10::IValue& value, size_t output) const {
    if (!value.isTensor()) {
      refuse_weights("output \"" + outputs_[output] + "\": the weights gave " + value.tagKind() + ", expected a tensor");
    }
    return value.toTensor();
  }

  torch::jit::Module module_;
  bool keeps_state_;
  size_t packed_layers_;
  std::optional<torch::jit::Method> forward_;
  /** The schema of `forward` before freezing, which may drop default values. */
  std::optional<c10::FunctionSchema> schema_;
  /** `forward` for the interpreter; none if libtorch's executor runs it. */
  std::optional<torch::jit::Code> code_;
  c10::Device device_;
  std::vector<std::string> outputs_;
  std::vector<Argument> arguments_;
};

}  // namespace

std::shared_ptr<Weights> open_torchscript(const WeightsOptions& options) {
  const c10::NoGradGuard no_grad;
  torch::jit::Module module = options.program ? load_program(options.path, *options.program, options.device)
                                              : torch::jit::load(options.path, options.device);
  module.eval();
  check_arguments(module);
  const bool keeps_state = options.instances > 1 && changes_attributes(module, options.callable);
  // Checked before freezing, which may drop default values of arguments and has less clear errors.
  if (!options.callable) {
    if (!module.find_method("forward")) refuse_weights("the TorchScript module has no method forward");
    match_arguments(module.get_method("forward").function().getSchema(), options.inputs);
  }
  std::optional<c10::FunctionSchema> schema;
  if (const auto forward = module.find_method("forward")) schema = forward->function().getSchema();
  auto loaded = prepare(std::move(module), options);
  return std::make_shared<TorchScript>(options, std::move(loaded), keeps_state, std::move(schema));
}

}  // namespace sconce
