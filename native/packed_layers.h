// Layers with weights packed for oneDNN, and their TorchScript operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace sconce {

/** Whether this libtorch has the operators that packed layers use. */
bool can_pack();

/** Operator of a linear layer. Each accepts different inputs and has its own error messages. */
enum class Product { linear, mm, addmm, matmul };

/**
 * A linear layer with constant weights, outputs as first dimension. Inputs of a wrong shape get libtorch's own error.
 */
class PackedLinear final : public torch::CustomClassHolder {
 public:
  static constexpr const char* OPERATOR = "sconce::packed_linear";
  using Form = Product;

  PackedLinear(const at::Tensor& weight, const std::optional<at::Tensor>& bias, Product product);
  at::Tensor run(const at::Tensor& input);
  /** Whether the layer is never slower than with this plain weight, which may be too large to be kept for slow sizes. */
  bool is_worth(const at::Tensor& weight) const;
  /** A copy of the given weight. */
  at::Tensor plain_weight() const;
  size_t bytes() const { return weight_.numel() * weight_.element_size(); }

 private:
  bool fits(const at::Tensor& input) const;
  at::Tensor run_packed(const at::Tensor& input) const;
  at::Tensor run_plain(const at::Tensor& input, const at::Tensor& weight) const;

  Product product_;
  int64_t columns_;
  /** Whether the memory of the plain weight has the columns as rows. */
  bool is_transposed_;
  at::Tensor weight_;
  std::optional<at::Tensor> bias_;
};

/** One value for each image dimension. */
using Pair = std::array<int64_t, 2>;

struct ConvolutionForm {
  Pair stride;
  Pair padding;
  Pair dilation;
  int64_t groups;
  /** True for `aten::conv2d`, false for `aten::convolution`. */
  bool takes_single_pictures;

  bool operator==(const ConvolutionForm& other) const {
    return stride == other.stride && padding == other.padding && dilation == other.dilation && groups == other.groups &&
           takes_single_pictures == other.takes_single_pictures;
  }
};

/** A 2D convolution with constant weights. */
class PackedConvolution final : public torch::CustomClassHolder {
 public:
  static constexpr const char* OPERATOR = "sconce::packed_convolution";
  using Form = ConvolutionForm;

  PackedConvolution(const at::Tensor& weight, const std::optional<at::Tensor>& bias, const ConvolutionForm& form);
  /**
   * oneDNN is fastest in channels-last layout (`at::MemoryFormat::ChannelsLast`) and returns it.
   * @param is_free whether the result may always be channels-last; otherwise it has libtorch's layout
   */
  at::Tensor run(const at::Tensor& input, bool is_free);
  /** Whether libtorch's result is also channels-last for any input. */
  bool is_channels_last() const { return is_channels_last_; }
  bool is_worth(const at::Tensor&) const { return true; }
  /** A copy of the given weight. */
  at::Tensor plain_weight();
  size_t bytes() const;

 private:
  bool fits(const at::Tensor& input) const;
  at::Tensor run_packed(const at::Tensor& input, const std::vector<int64_t>& sizes, bool is_free);
  at::Tensor run_plain(const at::Tensor& input, const at::Tensor& weight) const;
  at::Tensor pack(const at::Tensor& weight, std::optional<at::IntArrayRef> input_sizes) const;
  at::Tensor weight_for(const at::Tensor& input, const std::vector<int64_t>& sizes);
  at::Tensor unpacked() const;

  std::vector<int64_t> sizes_;
  at::ScalarType type_;
  ConvolutionForm form_;
  bool is_channels_last_;
  std::optional<at::Tensor> bias_;
  /** Sessions that share the weights run in parallel. */
  std::mutex mutex_;
  /** The weights in each needed layout. Never empty. */
  std::vector<at::Tensor> packed_;
  /** Weights by input sizes and number of threads. */
  std::map<std::vector<int64_t>, at::Tensor> packed_for_;
};

/**
 * Copies a tensor to dimension order like `aten::contiguous`, but also normalizes the strides of dimensions of size 1.
 */
constexpr const char* IN_ORDER = "sconce::in_order";

/** Makes `x.add(y)` equal to `x.add_(y)`: converts to x's dtype, and throws if the shape differs. */
constexpr const char* AS_WRITTEN = "sconce::as_written";

}  // namespace sconce
