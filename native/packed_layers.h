// Layers whose weights lie in memory as oneDNN reads them, and what TorchScript calls them by.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <array>
#include <optional>

namespace sconce {

/** Whether this libtorch has what packed layers are run with. */
bool can_pack();

/** `aten::linear` with constant weights; what does not fit them gets the error that it gets there. */
class PackedLinear final : public torch::CustomClassHolder {
 public:
  static constexpr const char* OPERATOR = "sconce::packed_linear";

  PackedLinear(const at::Tensor& weight, std::optional<at::Tensor> bias);
  at::Tensor run(const at::Tensor& input) const;

 private:
  int64_t columns_;
  at::Tensor weight_;
  std::optional<at::Tensor> bias_;
};

/** Of the two dimensions of a picture. */
using Pair = std::array<int64_t, 2>;

struct ConvolutionShape {
  Pair stride;
  Pair padding;
  Pair dilation;
  int64_t groups;
};

/** `aten::conv2d` with constant weights. What it gives has the channels of a pixel together: `at::MemoryFormat::ChannelsLast`. */
class PackedConvolution final : public torch::CustomClassHolder {
 public:
  static constexpr const char* OPERATOR = "sconce::packed_convolution";

  PackedConvolution(const at::Tensor& weight, std::optional<at::Tensor> bias, const ConvolutionShape& shape);
  at::Tensor run(const at::Tensor& input) const;

 private:
  bool fits(const at::Tensor& input) const;

  std::vector<int64_t> sizes_;
  ConvolutionShape shape_;
  at::Tensor weight_;
  std::optional<at::Tensor> bias_;
};

}  // namespace sconce
