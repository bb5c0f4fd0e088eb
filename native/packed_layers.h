// Layers whose weights lie in memory as oneDNN reads them, and what TorchScript calls them by.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "faster_form.h"

namespace sconce {

/** Whether this libtorch has what packed layers are run with. */
bool can_pack();

/** What a linear layer is written as; they take other inputs, and tell in other words what they do not take. */
enum class Product { linear, mm, addmm, matmul };

/** A linear layer with constant weights, the outputs first; what does not fit them gets the error that it gets from libtorch. */
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
  FasterForm faster_;
};

/** Of the two dimensions of a picture. */
using Pair = std::array<int64_t, 2>;

struct ConvolutionForm {
  Pair stride;
  Pair padding;
  Pair dilation;
  int64_t groups;
  /** As `aten::conv2d` does, which `aten::convolution` does not. */
  bool takes_single_pictures;

  bool operator==(const ConvolutionForm& other) const {
    return stride == other.stride && padding == other.padding && dilation == other.dilation && groups == other.groups &&
           takes_single_pictures == other.takes_single_pictures;
  }
};

/** A convolution over pictures with constant weights. */
class PackedConvolution final : public torch::CustomClassHolder {
 public:
  static constexpr const char* OPERATOR = "sconce::packed_convolution";
  using Form = ConvolutionForm;

  PackedConvolution(const at::Tensor& weight, const std::optional<at::Tensor>& bias, const ConvolutionForm& form);
  /**
   * oneDNN is fastest where the channels of a pixel lie together (`at::MemoryFormat::ChannelsLast`), and gives its results so.
   * @param is_free whether what this gives may always lie so; else it lies as libtorch would have it
   */
  at::Tensor run(const at::Tensor& input, bool is_free);
  /** Whether libtorch, too, gives what lies so, whatever the input. */
  bool is_channels_last() const { return is_channels_last_; }

 private:
  bool fits(const at::Tensor& input) const;
  bool is_tried(const at::Tensor& input) const;
  at::Tensor run_packed(const at::Tensor& input, const std::vector<int64_t>& sizes, bool is_free);
  at::Tensor run_plain(const at::Tensor& input, const at::Tensor& weight) const;
  at::Tensor pack(const at::Tensor& weight, std::optional<at::IntArrayRef> input_sizes) const;
  at::Tensor weight_for(const at::Tensor& input, const std::vector<int64_t>& sizes);
  at::Tensor plain_weight();
  at::Tensor unpacked() const;

  std::vector<int64_t> sizes_;
  at::ScalarType type_;
  ConvolutionForm form_;
  bool is_channels_last_;
  std::optional<at::Tensor> bias_;
  /** Sessions that share the weights run side by side. */
  std::mutex mutex_;
  /** The weights in each layout that was needed. Never empty. */
  std::vector<at::Tensor> packed_;
  /** Those for the sizes of an input and the number of threads. */
  std::map<std::vector<int64_t>, at::Tensor> packed_for_;
  FasterForm faster_;
};

/** A tensor that lies in the order of its dimensions: as `aten::contiguous`, and the strides of sizes of 1 are the usual ones, too. */
constexpr const char* IN_ORDER = "sconce::in_order";

/** The result of `x.add(y)` as `x.add_(y)` would have left it in `x`: of its dtype, and refused where it does not have its shape. */
constexpr const char* AS_WRITTEN = "sconce::as_written";

}  // namespace sconce
