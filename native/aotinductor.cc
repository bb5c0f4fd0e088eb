// Runs AOTInductor packages (.pt2): models that PyTorch compiled to machine code.
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "error.h"
#include "tensor.h"
#include "weights.h"

namespace sconce {
namespace {

/**
 * Repeats the last row of each tensor until there are `wanted` rows. Each given tensor has `rows` rows, at least one.
 */
std::vector<at::Tensor> filled_batch(const std::vector<at::Tensor>& given, int64_t rows, int64_t wanted) {
  if (rows >= wanted) return given;
  std::vector<at::Tensor> tensors;
  for (const auto& tensor : given) {
    auto sizes = tensor.sizes().vec();
    sizes[0] = wanted - rows;
    tensors.push_back(at::cat({tensor, tensor.narrow(0, rows - 1, 1).expand(sizes)}));
  }
  return tensors;
}

class AotInductor final : public Weights {
 public:
  explicit AotInductor(const WeightsOptions& options)
      : loader_(options.path, "model", false, options.instances, options.device.index()),
        device_(options.device),
        inputs_(options.inputs),
        slots_(options.compiled->inputs),
        places_(options.compiled->outputs),
        min_rows_(options.compiled->min_rows) {}

  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) override {
    const int64_t rows = inputs.empty() ? 0 : inputs[0].size(0);
    std::vector<at::Tensor> slots;
    slots.reserve(slots_.size());
    for (const int64_t slot : slots_) slots.push_back(std::move(inputs.at(slot)));
    auto outputs = run_slots(std::move(slots), rows);
    std::vector<at::Tensor> ordered;
    for (const int64_t place : places_) ordered.push_back(outputs.at(place));
    return ordered;
  }

  Value call(const std::string& method, const std::vector<Value>& arguments) override {
    if (method != "forward") {
      throw CodedError("run_failed", "an AOTInductor package has no method " + method + "; it has (forward)");
    }
    std::vector<at::Tensor> slots;
    int64_t rows = -1;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string where = "forward, argument " + std::to_string(i);
      slots.push_back(value_to_ivalue(arguments[i], c10::TensorType::get(), device_, where).toTensor());
      const int64_t size = slots.back().dim() > 0 ? slots.back().size(0) : 0;
      rows = rows < 0 || rows == size ? size : 0;
    }
    // `rows` is positive only if all arguments have the same first size. Otherwise no rows are added to the tensors.
    const auto outputs = run_slots(slots, rows);
    if (rows > 0 && rows < min_rows_ && !is_row_wise_.load()) {
      require_row_wise(slots, outputs);
      is_row_wise_.store(true);
    }
    if (outputs.size() == 1) return value_from_tensor(outputs[0], method);
    ValueList list;
    for (const auto& output : outputs) list.push_back(value_from_tensor(output, method));
    return {std::move(list)};
  }

 private:
  /** Runs the package. Pads a batch with fewer than `min_rows_` rows, and drops the added rows of the outputs. */
  std::vector<at::Tensor> run_slots(std::vector<at::Tensor> slots, int64_t rows) {
    try {
      if (rows <= 0) return loader_.boxed_run(std::move(slots));
      auto outputs = loader_.boxed_run(filled_batch(slots, rows, min_rows_));
      for (auto& output : outputs) {
        const bool is_filled = rows < min_rows_ && output.defined() && output.dim() > 0 && output.size(0) == min_rows_;
        if (is_filled) output = output.narrow(0, 0, rows);
      }
      return outputs;
    } catch (const std::exception& error) {
      throw explained(error.what());
    }
  }

  /** Runs the call again with other values in the added rows, and throws if the results differ. */
  void require_row_wise(const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& outputs) {
    const int64_t rows = given[0].size(0), filled = min_rows_;
    std::vector<at::Tensor> others;
    for (const auto& tensor : filled_batch(given, rows, filled)) {
      others.push_back(tensor.clone());
      others.back().narrow(0, rows, filled - rows).zero_();
    }
    const auto again = loader_.boxed_run(std::move(others));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool has_rows = again[i].dim() > 0 && again[i].size(0) == filled;
      if (has_rows && at::allclose(outputs[i], again[i].narrow(0, 0, rows), 1e-3, 1e-6, true)) continue;
      throw CodedError("run_failed", "forward got tensors of " + std::to_string(rows) + " rows, and the package was compiled for at least " +
                                         std::to_string(filled) + ": its results are not one per row, so the tensors cannot be filled up");
    }
  }

  /** Rewrites an error of the package: `input_handles[k]` becomes the name of the input. */
  CodedError explained(const std::string& message) const {
    // A package passes errors of libtorch on as text only. These are the texts of libtorch's allocators.
    for (const char* text : {"DefaultCPUAllocator: can't allocate memory: you tried to allocate ", "CUDA out of memory. Tried to allocate "}) {
      if (message.find(text) != std::string::npos) return CodedError("out_of_memory", meaningful_line(message));
    }
    const auto at = message.find("input_handles[");
    size_t slot = 0;
    int length = 0;
    if (at != std::string::npos) std::sscanf(message.c_str() + at, "input_handles[%zu]: %n", &slot, &length);
    if (length == 0) return current_error("run_failed");
    const std::string name = slot < slots_.size() ? "\"" + inputs_[slots_[slot]] + "\"" : std::to_string(slot);
    const auto begin = at + static_cast<size_t>(length);
    const std::string what = message.substr(begin, message.find('\n', begin) - begin);
    return CodedError("run_failed", "input " + name + " is not what the package was compiled for: " + what);
  }

  torch::inductor::AOTIModelPackageLoader loader_;
  c10::Device device_;
  std::vector<std::string> inputs_;
  std::vector<int64_t> slots_;
  std::vector<int64_t> places_;
  const int64_t min_rows_;
  /** True after a call with added rows gave the same results with other values in these rows. */
  std::atomic<bool> is_row_wise_{false};
};

}  // namespace

std::shared_ptr<Weights> open_aotinductor(const WeightsOptions& options) { return std::make_shared<AotInductor>(options); }

}  // namespace sconce
