// Layers with weights packed for oneDNN (rearranged for the processor), and their TorchScript operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace sconce {

bool can_pack();

/**
 * The operator that a packed linear layer replaces. Each operator accepts different inputs and has different error
 * messages.
 */
enum class Product { linear, mm, addmm, matmul };

/**
 * A linear layer with constant weights. For inputs that oneDNN does not take, libtorch's operator runs, or throws its
 * error.
 */
class PackedLinear final : public torch::CustomClassHolder {
 public:
  static constexpr const char* OPERATOR = "sconce::packed_linear";
  using Form = Product;

  PackedLinear(const at::Tensor& weight, const std::optional<at::Tensor>& bias, Product product);
  at::Tensor run(const at::Tensor& input);

 private:
  bool fits(const at::Tensor& input) const;
  at::Tensor run_packed(const at::Tensor& input) const;
  at::Tensor run_plain(const at::Tensor& input, const at::Tensor& weight) const;

  Product product_;
  int64_t columns_;
  at::Tensor weight_;
  std::optional<at::Tensor> bias_;
};

/** Values for the two image dimensions. */
using Pair = std::array<int64_t, 2>;

struct ConvolutionForm {
  Pair stride;
  Pair padding;
  Pair dilation;
  int64_t groups;
  /** Whether inputs may have no batch dimension: true for `aten::conv2d`, false for `aten::convolution`. */
  bool takes_single_pictures;

  bool operator==(const ConvolutionForm&) const = default;
};

/** A 2D convolution with constant weights. */
class PackedConvolution final : public torch::CustomClassHolder {
 public:
  static constexpr const char* OPERATOR = "sconce::packed_convolution";
  using Form = ConvolutionForm;

  PackedConvolution(const at::Tensor& weight, const std::optional<at::Tensor>& bias, const ConvolutionForm& form);
  /**
   * Runs the convolution. oneDNN is fastest in channels-last layout.
   * @param is_free true: the result may be channels-last; false: it has the layout of libtorch's result
   */
  at::Tensor run(const at::Tensor& input, bool is_free);
  /** Whether libtorch's result is always channels-last, as for a channels-last weight. */
  bool is_channels_last() const { return is_channels_last_; }

 private:
  bool fits(const at::Tensor& input) const;
  bool is_product(const at::Tensor& input) const;
  at::Tensor product(const at::Tensor& input, const at::Tensor& weight) const;
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
  /** Guards the packed weights: sessions that share the weights run in parallel. */
  std::mutex mutex_;
  /**
   * The weights in each layout that remembered input sizes need, also plain; at first in the layout for an unknown input
   * size. Never empty.
   */
  std::vector<at::Tensor> packed_;
  /** The weights in the right layout, by input sizes and number of threads. */
  std::map<std::vector<int64_t>, at::Tensor> packed_for_;
};

/** Operator that makes a tensor row-major, like `aten::contiguous`, and sets the strides of dimensions of size 1. */
constexpr const char* IN_ORDER = "sconce::in_order";

/**
 * Operator that completes the replacement of an in-place operator: makes `x.add(y)` equal to `x.add_(y)`. Converts the
 * result to x's dtype, and throws if the shape differs.
 */
constexpr const char* AS_WRITTEN = "sconce::as_written";

}  // namespace sconce
