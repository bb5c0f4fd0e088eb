#include "packed_layers.h"

#include <ATen/Config.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <torch/library.h>

#include <utility>
#include <vector>

namespace sconce {
namespace {

// What torch.compile has CPUs do for such layers: it is called by name, as no header declares it.
constexpr const char* PACK_LINEAR = "mkldnn::_reorder_linear_weight";
constexpr const char* RUN_LINEAR = "mkldnn::_linear_pointwise";
constexpr const char* PACK_CONVOLUTION = "mkldnn::_reorder_convolution_weight";
constexpr const char* RUN_CONVOLUTION = "mkldnn::_convolution_pointwise";

/** For so many rows linear layers are packed. Others are served as well by that. */
constexpr int64_t PACKED_FOR_ROWS = 16;

at::Tensor call(const c10::OperatorHandle& function, torch::jit::Stack arguments) {
  function.callBoxed(arguments);
  return std::move(arguments.back()).toTensor();
}

c10::OperatorHandle find(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

/** Of one that changes what the layer gives afterwards in the same pass. */
const c10::IValue none_after("none");
c10::IValue no_scalars() { return c10::List<std::optional<at::Scalar>>(); }

bool is_dense(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type && tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.numel() > 0;
}

std::vector<int64_t> list(const Pair& pair) { return {pair[0], pair[1]}; }

TORCH_LIBRARY(sconce, library) {
  library.class_<PackedLinear>("PackedLinear");
  library.class_<PackedConvolution>("PackedConvolution");
  library.def("packed_linear(Tensor input, __torch__.torch.classes.sconce.PackedLinear layer) -> Tensor",
              [](const at::Tensor& input, const c10::intrusive_ptr<PackedLinear>& layer) { return layer->run(input); });
  library.def("packed_convolution(Tensor input, __torch__.torch.classes.sconce.PackedConvolution layer) -> Tensor",
              [](const at::Tensor& input, const c10::intrusive_ptr<PackedConvolution>& layer) { return layer->run(input); });
}

}  // namespace

bool can_pack() {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto has = [&](const char* name) { return dispatcher.findSchema({name, ""}).has_value(); };
  return at::globalContext().userEnabledMkldnn() && has(PACK_LINEAR) && has(RUN_LINEAR) && has(PACK_CONVOLUTION) &&
         has(RUN_CONVOLUTION);
}

PackedLinear::PackedLinear(const at::Tensor& weight, std::optional<at::Tensor> bias)
    : columns_(weight.size(1)),
      weight_(call(find(PACK_LINEAR), {weight.contiguous(), PACKED_FOR_ROWS})),
      bias_(std::move(bias)) {}

at::Tensor PackedLinear::run(const at::Tensor& input) const {
  static const auto function = find(RUN_LINEAR);
  const bool fits = is_dense(input, weight_.scalar_type()) && input.dim() > 0 && input.size(-1) == columns_;
  if (!fits) return at::linear(input, weight_.to_dense(), bias_);
  return call(function, {input, weight_, bias_, none_after, no_scalars(), ""});
}

PackedConvolution::PackedConvolution(const at::Tensor& weight, std::optional<at::Tensor> bias, const ConvolutionShape& shape)
    : sizes_(weight.sizes().vec()),
      shape_(shape),
      weight_(call(find(PACK_CONVOLUTION), {weight.contiguous(), list(shape.padding), list(shape.stride), list(shape.dilation),
                                            shape.groups, c10::IValue()})),
      bias_(std::move(bias)) {}

bool PackedConvolution::fits(const at::Tensor& input) const {
  if (!is_dense(input, weight_.scalar_type()) || input.dim() != 4 || input.size(1) != sizes_[1] * shape_.groups) return false;
  for (const size_t i : {0, 1}) {
    const int64_t kernel = shape_.dilation[i] * (sizes_[2 + i] - 1) + 1;
    if (input.size(2 + i) + 2 * shape_.padding[i] < kernel) return false;
  }
  return true;
}

at::Tensor PackedConvolution::run(const at::Tensor& input) const {
  static const auto function = find(RUN_CONVOLUTION);
  if (input.dim() == 3) return run(input.unsqueeze(0)).squeeze(0);
  const auto [stride, padding, dilation, groups] = shape_;
  if (!fits(input)) {
    return at::conv2d(input, weight_.to_dense().reshape(sizes_), bias_, stride, padding, dilation, groups);
  }
  return call(function, {input, weight_, bias_, list(padding), list(stride), list(dilation), groups, none_after, no_scalars(), ""});
}

}  // namespace sconce
