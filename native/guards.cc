#include "guards.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "argument_checks.h"
#include "error.h"
#include "filled_batch.h"
#include "program.h"
#include "tensor.h"

namespace sconce {
namespace {

/** Most remembered input sizes. */
constexpr size_t MOST_KNOWN_SIZES = 256;
/** Most rows that padding may add to a batch. */
constexpr int64_t MOST_ADDED_ROWS = 64;

/**
 * For each argument of the program, in order: index of the declared input with the same name. Without one: the next
 * input whose name the program lacks.
 */
std::vector<size_t> match_places(const std::vector<std::string>& wanted, const std::vector<std::string>& declared) {
  std::vector<size_t> places(wanted.size());
  std::iota(places.begin(), places.end(), 0);
  if (declared.empty()) return places;
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<size_t> unnamed;
  for (size_t i = 0; i < declared.size(); ++i) {
    if (!has(wanted, declared[i])) unnamed.push_back(i);
  }
  size_t next = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto found = std::find(declared.begin(), declared.end(), wanted[i]);
    if (found != declared.end()) {
      places[i] = found - declared.begin();
    } else if (next < unnamed.size()) {
      places[i] = unnamed[next++];
    } else {
      refuse_weights("the program takes " + names_text(wanted) + ", the model declares the inputs " + names_text(declared));
    }
  }
  return places;
}

class GuardedWeights final : public Weights {
 public:
  GuardedWeights(std::shared_ptr<Weights> weights, const WeightsOptions& options)
      : weights_(std::move(weights)), guards_(*options.guards, options.inputs) {}

  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) override {
    const int64_t rows = inputs.empty() ? 0 : inputs[0].size(0);
    const int64_t wanted = guards_.rows_for(inputs);
    if (wanted == rows) return weights_->run(std::move(inputs));
    auto outputs = weights_->run(filled_batch(inputs, rows, wanted));
    cut_batch(outputs, wanted, rows);
    return outputs;
  }

  Value call(const std::string& method, const std::vector<Value>& arguments) override {
    std::vector<at::Tensor> tensors;
    for (const auto& argument : arguments) {
      if (const auto* tensor = std::get_if<at::Tensor>(&argument.held)) tensors.push_back(*tensor);
    }
    if (method != "forward" || tensors.empty() || tensors.size() != arguments.size()) return weights_->call(method, arguments);
    guards_.require(tensors);
    return weights_->call(method, arguments);
  }

  bool keeps_state() const override { return weights_->keeps_state(); }
  size_t packed_layers() const override { return weights_->packed_layers(); }

 private:
  std::shared_ptr<Weights> weights_;
  Guards guards_;
};

}  // namespace

Guards::Guards(const GuardText& text, const std::vector<std::string>& declared)
    : module_("Guards"), names_(text.inputs), places_(match_places(text.inputs, declared)) {
  module_.define(text.source, program_names({}));
  // A remainder by zero in a guard would end the process.
  check_arguments(module_);
}

int64_t Guards::rows_for(const std::vector<at::Tensor>& inputs) {
  if (inputs.size() != names_.size() || inputs.empty()) return inputs.empty() || inputs[0].dim() == 0 ? 0 : inputs[0].size(0);
  std::vector<int64_t> key;
  for (const auto& input : inputs) {
    key.push_back(static_cast<int64_t>(input.scalar_type()));
    key.push_back(input.dim());
    key.insert(key.end(), input.sizes().begin(), input.sizes().end());
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const int64_t rows = inputs[0].dim() == 0 ? 0 : inputs[0].size(0);
  int64_t wanted = rows;
  if (const auto first = failure(inputs, std::nullopt)) {
    const bool is_batch = std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
      return rows > 0 && input.dim() > 0 && input.size(0) == rows;
    });
    const int64_t most = is_batch ? rows + MOST_ADDED_ROWS : rows;
    do {
      if (++wanted > most) throw CodedError("run_failed", *first + " (" + sizes_text(inputs) + ")");
    } while (failure(inputs, wanted));
  }
  if (known_.size() == MOST_KNOWN_SIZES) known_.clear();
  known_.emplace(std::move(key), wanted);
  return wanted;
}

void Guards::require(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != names_.size()) return;
  if (const auto failed = failure(inputs, std::nullopt)) throw CodedError("run_failed", *failed + " (" + sizes_text(inputs) + ")");
}

std::optional<std::string> Guards::failure(const std::vector<at::Tensor>& inputs, std::optional<int64_t> rows) const {
  torch::jit::Stack stack;
  stack.emplace_back(module_._ivalue());
  for (const size_t place : places_) {
    auto sizes = inputs[place].sizes().vec();
    if (rows) sizes[0] = *rows;
    // Guards read only sizes and dtypes, so tensors without memory suffice.
    stack.emplace_back(at::empty(sizes, at::dtype(inputs[place].scalar_type()).device(c10::kMeta)));
  }
  try {
    module_.get_method("guards").function().run(stack);
  } catch (const std::exception& error) {
    return "a guard of the program cannot be computed for these sizes";
  }
  const std::string& message = stack.back().toStringRef();
  if (message.empty()) return std::nullopt;
  return message;
}

std::string Guards::sizes_text(const std::vector<at::Tensor>& inputs) const {
  std::string text;
  for (size_t i = 0; i < names_.size(); ++i) {
    std::string sizes;
    for (const int64_t size : inputs[places_[i]].sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    text += (i == 0 ? "" : ", ") + names_[i] + " is [" + sizes + "]";
  }
  return text + " with the batch first";
}

std::shared_ptr<Weights> guarded(std::shared_ptr<Weights> weights, const WeightsOptions& options) {
  if (!options.guards) return weights;
  return std::make_shared<GuardedWeights>(std::move(weights), options);
}

}  // namespace sconce
