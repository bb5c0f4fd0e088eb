#include "packed_layers.h"

#include <ATen/Config.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <c10/core/ScalarType.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace sconce {
namespace {

// Operators that torch.compile uses for linear layers and convolutions on CPUs. No header declares them.
constexpr const char* PACK_LINEAR = "mkldnn::_reorder_linear_weight";
constexpr const char* RUN_LINEAR = "mkldnn::_linear_pointwise";
constexpr const char* PACK_CONVOLUTION = "mkldnn::_reorder_convolution_weight";
constexpr const char* RUN_CONVOLUTION = "mkldnn::_convolution_pointwise";
constexpr const char* LAYOUT = "mkldnn::_get_mkldnn_serialized_md";

/** Linear layers are packed for batches of this many rows. Batches of other sizes run equally fast. */
constexpr int64_t PACKED_FOR_ROWS = 16;

/** Maximum input sizes whose layout a convolution remembers. */
constexpr size_t MOST_SIZES = 256;

at::Tensor call(const c10::OperatorHandle& function, torch::jit::Stack arguments) {
  function.callBoxed(arguments);
  return std::move(arguments.back()).toTensor();
}

c10::OperatorHandle find(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

/** Argument for a layer without a fused operation after it. */
const c10::IValue none_after("none");
c10::IValue no_scalars() { return c10::List<std::optional<at::Scalar>>(); }

bool is_dense(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type && tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.numel() > 0;
}

std::vector<int64_t> list(const Pair& pair) { return {pair[0], pair[1]}; }

std::optional<at::Tensor> contiguous(const std::optional<at::Tensor>& tensor) {
  return tensor ? std::optional(tensor->contiguous()) : std::nullopt;
}

at::Tensor in_order(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) return tensor.contiguous();
  const auto strides = c10::contiguous_strides(tensor.sizes());
  return tensor.strides() == c10::IntArrayRef(strides) ? tensor : tensor.as_strided(tensor.sizes(), strides);
}

at::Tensor as_written(const at::Tensor& result, const at::Tensor& into) {
  TORCH_CHECK(result.sizes() == into.sizes(), "output with shape ", into.sizes(), " doesn't match the broadcast shape ", result.sizes());
  if (result.scalar_type() == into.scalar_type()) return result;
  TORCH_CHECK(c10::canCast(result.scalar_type(), into.scalar_type()), "result type ", result.scalar_type(),
              " can't be cast to the desired output type ", into.scalar_type());
  return result.to(into.scalar_type());
}

// A fragment, because a model's own operators may use the same namespace.
TORCH_LIBRARY_FRAGMENT(sconce, library) {
  library.class_<PackedLinear>("PackedLinear");
  library.class_<PackedConvolution>("PackedConvolution");
  library.def("packed_linear(Tensor input, __torch__.torch.classes.sconce.PackedLinear layer) -> Tensor",
              [](const at::Tensor& input, const c10::intrusive_ptr<PackedLinear>& layer) { return layer->run(input); });
  library.def("packed_convolution(Tensor input, __torch__.torch.classes.sconce.PackedConvolution layer, bool is_free) -> Tensor",
              [](const at::Tensor& input, const c10::intrusive_ptr<PackedConvolution>& layer, bool is_free) {
                return layer->run(input, is_free);
              });
  library.def("in_order(Tensor(a) tensor) -> Tensor(a)", &in_order);
  library.def("as_written(Tensor(a) result, Tensor into) -> Tensor(a)", &as_written);
}

}  // namespace

bool can_pack() {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto has = [&](const char* name) { return dispatcher.findSchema({name, ""}).has_value(); };
  return at::globalContext().userEnabledMkldnn() && has(PACK_LINEAR) && has(RUN_LINEAR) && has(PACK_CONVOLUTION) &&
         has(RUN_CONVOLUTION) && has(LAYOUT);
}

PackedLinear::PackedLinear(const at::Tensor& weight, const std::optional<at::Tensor>& bias, Product product)
    : product_(product),
      columns_(weight.size(1)),
      weight_(call(find(PACK_LINEAR), {weight.contiguous(), PACKED_FOR_ROWS})),
      bias_(contiguous(bias)) {}

bool PackedLinear::fits(const at::Tensor& input) const {
  const bool takes_matrices_only = product_ == Product::mm || product_ == Product::addmm;
  if (!is_dense(input, weight_.scalar_type()) || input.dim() == 0 || (takes_matrices_only && input.dim() != 2)) return false;
  return input.size(-1) == columns_;
}

at::Tensor PackedLinear::run_plain(const at::Tensor& input, const at::Tensor& weight) const {
  switch (product_) {
    case Product::linear: return at::linear(input, weight, bias_);
    case Product::matmul: return at::matmul(input, weight.t());
    case Product::mm: break;
    // TorchScript computes product and sum separately. A fused operator rounds differently.
    case Product::addmm: return at::mm(input, weight.t()).add(*bias_);
  }
  return at::mm(input, weight.t());
}

at::Tensor PackedLinear::run_packed(const at::Tensor& input) const {
  static const auto function = find(RUN_LINEAR);
  return call(function, {input, weight_, bias_, none_after, no_scalars(), ""});
}

at::Tensor PackedLinear::run(const at::Tensor& input) {
  return fits(input) ? run_packed(input) : run_plain(input, weight_.to_dense());
}

PackedConvolution::PackedConvolution(const at::Tensor& weight, const std::optional<at::Tensor>& bias, const ConvolutionForm& form)
    : sizes_(weight.sizes().vec()),
      type_(weight.scalar_type()),
      form_(form),
      is_channels_last_(weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast),
      bias_(contiguous(bias)),
      packed_({pack(weight, std::nullopt)}) {}

at::Tensor PackedConvolution::pack(const at::Tensor& weight, std::optional<at::IntArrayRef> input_sizes) const {
  static const auto function = find(PACK_CONVOLUTION);
  const auto& [stride, padding, dilation, groups, _] = form_;
  return call(function, {weight.contiguous(), list(padding), list(stride), list(dilation), groups, input_sizes});
}

at::Tensor PackedConvolution::unpacked() const {
  const auto format = is_channels_last_ ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return packed_.front().to_dense().reshape(sizes_).contiguous(format);
}

/**
 * Whether the convolution is a matrix product: each picture is a single pixel, as after global pooling. oneDNN adds all
 * products of such a pixel one after the other, so its rounding error is twice as large as MKL's, which is also faster.
 */
bool PackedConvolution::is_product(const at::Tensor& input) const {
  const bool has_pixels = input.size(2) == 1 && input.size(3) == 1 && sizes_[2] == 1 && sizes_[3] == 1;
  return has_pixels && form_.groups == 1 && form_.padding == Pair{0, 0} && type_ == at::kFloat;
}

/**
 * The weights in the layout for the input's sizes and the number of threads: plain for a matrix product, else the layout
 * that oneDNN prefers. With another layout it would repack the weights at each run, which can take ten times as long as
 * the convolution.
 */
at::Tensor PackedConvolution::weight_for(const at::Tensor& input, const std::vector<int64_t>& sizes) {
  static const auto layout = find(LAYOUT);
  const std::lock_guard lock(mutex_);
  const auto known = packed_for_.find(sizes);
  if (known != packed_for_.end()) return known->second;
  if (packed_for_.size() == MOST_SIZES) packed_for_.clear();
  const bool is_plain = is_product(input);
  const auto wanted = is_plain ? at::Tensor() : call(layout, {pack(at::empty(sizes_, type_), input.sizes())});
  auto found = std::find_if(packed_.begin(), packed_.end(), [&](const at::Tensor& packed) {
    return packed.is_mkldnn() ? !is_plain && at::equal(call(layout, {packed}), wanted) : is_plain;
  });
  if (found == packed_.end()) {
    auto packed = is_plain ? unpacked() : pack(unpacked(), input.sizes());
    // Drops layouts that no remembered size uses.
    if (packed_for_.empty()) packed_.clear();
    found = packed_.insert(packed_.end(), std::move(packed));
  }
  packed_for_.emplace(sizes, *found);
  return *found;
}

bool PackedConvolution::fits(const at::Tensor& input) const {
  if (!is_dense(input, type_) || input.dim() != 4 || input.size(1) != sizes_[1] * form_.groups) return false;
  for (const size_t i : {0, 1}) {
    const int64_t kernel = form_.dilation[i] * (sizes_[2 + i] - 1) + 1;
    if (input.size(2 + i) + 2 * form_.padding[i] < kernel) return false;
  }
  return true;
}

at::Tensor PackedConvolution::run_plain(const at::Tensor& input, const at::Tensor& weight) const {
  const auto& [stride, padding, dilation, groups, takes_single_pictures] = form_;
  if (takes_single_pictures) return at::conv2d(input, weight, bias_, stride, padding, dilation, groups);
  return at::convolution(input, weight, bias_, stride, padding, dilation, false, {0, 0}, groups);
}

/** The convolution of single pixels, with the strides of a channels-last tensor. */
at::Tensor PackedConvolution::product(const at::Tensor& input, const at::Tensor& weight) const {
  const int64_t rows = input.size(0), channels = sizes_[0];
  const auto output = at::linear(input.reshape({rows, sizes_[1]}), weight.reshape({channels, sizes_[1]}), bias_);
  return output.as_strided({rows, channels, 1, 1}, {channels, 1, channels, channels});
}

at::Tensor PackedConvolution::run_packed(const at::Tensor& input, const std::vector<int64_t>& sizes, bool is_free) {
  static const auto function = find(RUN_CONVOLUTION);
  const auto& [stride, padding, dilation, groups, _] = form_;
  const auto weight = weight_for(input, sizes);
  const auto output = weight.is_mkldnn() ? call(function, {input, weight, bias_, list(padding), list(stride), list(dilation), groups, none_after,
                                                           no_scalars(), ""})
                                         : product(input, weight);
  const bool is_right_layout = is_free || is_channels_last_ || input.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  return is_right_layout ? output : in_order(output);
}

at::Tensor PackedConvolution::run(const at::Tensor& input, bool is_free) {
  if (form_.takes_single_pictures && input.dim() == 3) return run(input.unsqueeze(0), is_free).squeeze(0);
  if (!fits(input)) {
    const std::lock_guard lock(mutex_);
    return run_plain(input, unpacked());
  }
  auto sizes = input.sizes().vec();
  sizes.push_back(at::get_num_threads());
  return run_packed(input, sizes, is_free);
}

}  // namespace sconce
