// Operators of torchvision that exported detectors call.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "weights.h"

namespace sconce {
namespace {

/** The dtype for the arithmetic of half precision. */
c10::ScalarType computed_type(const at::Tensor& tensor) {
  return at::isReducedFloatingType(tensor.scalar_type()) ? at::kFloat : tensor.scalar_type();
}

template <typename T>
std::vector<int64_t> kept_boxes(const at::Tensor& sorted, double threshold) {
  const auto box = sorted.accessor<T, 2>();
  const int64_t count = box.size(1);
  std::vector<T> areas(count);
  for (int64_t i = 0; i < count; ++i) areas[i] = (box[2][i] - box[0][i]) * (box[3][i] - box[1][i]);
  std::vector<char> is_suppressed(count, false);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < count; ++i) {
    if (is_suppressed[i]) continue;
    kept.push_back(i);
    for (int64_t j = i + 1; j < count; ++j) {
      const T width = std::min(box[2][i], box[2][j]) - std::max(box[0][i], box[0][j]);
      const T height = std::min(box[3][i], box[3][j]) - std::max(box[1][i], box[1][j]);
      const T common = std::max(T(0), width) * std::max(T(0), height);
      if (common / (areas[i] + areas[j] - common) > threshold) is_suppressed[j] = true;
    }
  }
  return kept;
}

/** Indices of the boxes to keep, best first. A box (x1, y1, x2, y2) is dropped if it overlaps a better kept box by more than the threshold. */
at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double threshold) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4, "nms: boxes must be [N, 4], received ", boxes.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0), "nms: scores must be [", boxes.size(0), "], received ",
              scores.sizes());
  const auto order = std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  const auto sorted = boxes.index_select(0, order).to(at::kCPU, computed_type(boxes)).t().contiguous();
  std::vector<int64_t> kept;
  AT_DISPATCH_FLOATING_TYPES(sorted.scalar_type(), "nms", [&] { kept = kept_boxes<scalar_t>(sorted, threshold); });
  return order.index_select(0, at::tensor(kept, at::kLong).to(order.device()));
}

/** Weights of one axis of a region: a row for each bin, a column for each element from the index `first` on. */
struct Axis {
  int64_t first;
  at::Tensor weights;
};

/**
 * Weights with which bilinear samples of the bins read an axis. Coordinates have the type T of the tensors, because
 * their rounding decides which elements a sample reads.
 */
template <typename T>
Axis axis_of(T from, T to, int64_t bins, int64_t size, int64_t ratio, bool is_aligned) {
  using Sum = at::opmath_type<T>;
  const T length = is_aligned ? T(to - from) : std::max(T(to - from), T(1));
  const T bin = length / T(bins);
  TORCH_CHECK(std::abs(static_cast<double>(length)) < 1e7, "roi_align: a region is ", length, " elements long");
  const auto samples = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(static_cast<double>(T(length / T(bins)))));
  const auto clamped = [&](T place) { return static_cast<int64_t>(std::clamp<double>(place, 0, size - 1)); };
  const T last = from + length;
  const int64_t first = std::max<int64_t>(0, clamped(std::min(from, last)) - 1);
  const int64_t count = std::min(size, clamped(std::max(from, last)) + 3) - first;
  at::Tensor weights = at::zeros({bins, count}, c10::CppTypeToScalarType<Sum>::value);
  auto weight = weights.template accessor<Sum, 2>();
  for (int64_t i = 0; i < bins; ++i) {
    for (int64_t sample = 0; sample < samples; ++sample) {
      T place = from + T(i) * bin + T(sample + .5F) * bin / T(samples);
      if (!(place >= T(-1) && place <= T(size))) continue;
      place = std::max(place, T(0));
      const auto low = std::min(static_cast<int64_t>(place), size - 1);
      const T share = low == size - 1 ? T(0) : T(place - T(low));
      weight[i][low - first] += (T(1) - share) / static_cast<Sum>(samples);
      if (share > T(0)) weight[i][low + 1 - first] += share / static_cast<Sum>(samples);
    }
  }
  return {first, weights};
}

/**
 * Mean of bilinear samples in each bin of each region. Samples are separable, so a region is the product of the weights
 * of its rows, its features, and the weights of its columns.
 */
at::Tensor roi_align(const at::Tensor& input, const at::Tensor& rois, double scale, int64_t bins_y, int64_t bins_x,
                     int64_t ratio, bool is_aligned) {
  TORCH_CHECK(input.dim() == 4, "roi_align: input must be [N, C, H, W], received ", input.sizes());
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, "roi_align: rois must be [K, 5], received ", rois.sizes());
  TORCH_CHECK(rois.scalar_type() == input.scalar_type(), "roi_align: input is ", input.scalar_type(), " and rois ",
              rois.scalar_type());
  const auto channels = input.size(1);
  auto output = at::zeros({rois.size(0), channels, bins_y, bins_x}, input.options());
  if (output.numel() == 0) return output;
  const auto regions = rois.cpu();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "roi_align", [&] {
    const auto region = regions.accessor<scalar_t, 2>();
    const auto offset = static_cast<scalar_t>(is_aligned ? 0.5 : 0);
    const auto edge = [&](int64_t k, int i) -> scalar_t { return region[k][i] * static_cast<scalar_t>(scale) - offset; };
    for (int64_t k = 0; k < region.size(0); ++k) {
      const auto item = static_cast<int64_t>(region[k][0]);
      TORCH_CHECK(item >= 0 && item < input.size(0), "roi_align: a region has the item ", item, " of ", input.size(0));
      const auto y = axis_of<scalar_t>(edge(k, 2), edge(k, 4), bins_y, input.size(2), ratio, is_aligned);
      const auto x = axis_of<scalar_t>(edge(k, 1), edge(k, 3), bins_x, input.size(3), ratio, is_aligned);
      const auto features =
          input[item].narrow(1, y.first, y.weights.size(1)).narrow(2, x.first, x.weights.size(1)).to(y.weights.scalar_type());
      // Each product is one of two matrices: many small products would take longer.
      const auto columns = at::mm(features.reshape({-1, features.size(2)}), x.weights.t().to(input.device()));
      const auto turned = columns.view({channels, -1, bins_x}).transpose(1, 2).reshape({-1, features.size(1)});
      output[k].copy_(at::mm(turned, y.weights.t().to(input.device())).view({channels, bins_x, bins_y}).transpose(1, 2));
    }
  });
  return output;
}

/** A convolution whose samples are moved by `offset` and multiplied by `mask`: a product of the weights and the samples. */
at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset, const at::Tensor& mask,
                         const at::Tensor& bias, int64_t stride_y, int64_t stride_x, int64_t pad_y, int64_t pad_x,
                         int64_t dilation_y, int64_t dilation_x, int64_t groups, int64_t offset_groups, bool use_mask) {
  TORCH_CHECK(input.dim() == 4 && weight.dim() == 4 && offset.dim() == 4,
              "deform_conv2d: input, weight and offset must have 4 dimensions");
  const auto items = input.size(0), channels = input.size(1), height = input.size(2), width = input.size(3);
  const auto taps = weight.size(2) * weight.size(3), outputs = weight.size(0);
  const auto rows = (height + 2 * pad_y - dilation_y * (weight.size(2) - 1) - 1) / stride_y + 1;
  const auto columns = (width + 2 * pad_x - dilation_x * (weight.size(3) - 1) - 1) / stride_x + 1;
  TORCH_CHECK(offset.sizes() == at::IntArrayRef({items, offset_groups * 2 * taps, rows, columns}),
              "deform_conv2d: offset must be [", items, ", ", offset_groups * 2 * taps, ", ", rows, ", ", columns,
              "], received ", offset.sizes());
  const auto type = computed_type(input);
  const auto of_input = input.options();
  const auto places = [&](int64_t count, int64_t step, int64_t from) { return at::arange(count, of_input).mul(step).add(from); };
  // Coordinates of the samples, as [items, groups, taps, rows, columns].
  const auto moves = offset.reshape({items, offset_groups, taps, 2, rows, columns});
  const auto y = places(rows, stride_y, -pad_y).view({1, rows, 1}) +
                 places(weight.size(2), dilation_y, 0).repeat_interleave(weight.size(3)).view({taps, 1, 1}) + moves.select(3, 0);
  const auto x = places(columns, stride_x, -pad_x) +
                 places(weight.size(3), dilation_x, 0).repeat({weight.size(2)}).view({taps, 1, 1}) + moves.select(3, 1);
  // grid_sampler has coordinates from -1 to 1 at the outer edges of the picture.
  const auto grid = at::stack({(x.to(type) * 2 + 1) / width - 1, (y.to(type) * 2 + 1) / height - 1}, -1)
                        .view({items * offset_groups, taps * rows, columns, 2});
  const auto pictures = input.to(type).reshape({items * offset_groups, channels / offset_groups, height, width});
  auto samples = at::grid_sampler(pictures, grid, /*bilinear*/ 0, /*zeros*/ 0, /*align_corners=*/false)
                     .view({items, offset_groups, channels / offset_groups, taps, rows, columns});
  if (use_mask) samples = samples * mask.to(type).reshape({items, offset_groups, 1, taps, rows, columns});
  const auto result = at::matmul(weight.to(type).reshape({groups, outputs / groups, channels / groups * taps}),
                                 samples.reshape({items, groups, channels / groups * taps, rows * columns}));
  return (result.view({items, outputs, rows, columns}) + bias.to(type).view({1, outputs, 1, 1})).to(input.scalar_type());
}

}  // namespace

void register_vision_operators() {
  static const bool is_registered = [] {
    static std::optional<torch::Library> library;
    library.emplace(torch::Library::FRAGMENT, "torchvision", std::nullopt, __FILE__, __LINE__);
    const auto add = [&](const std::string& name, const char* schema, auto* function) {
      if (c10::Dispatcher::singleton().findSchema({"torchvision::" + name, ""})) return;
      library->def((name + schema).c_str());
      library->impl(name.c_str(), torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, function));
    };
    add("nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms);
    add("roi_align",
        "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, "
        "bool aligned) -> Tensor",
        roi_align);
    add("deform_conv2d",
        "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt "
        "pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> "
        "Tensor",
        deform_conv2d);
    return true;
  }();
  static_cast<void>(is_registered);
}

}  // namespace sconce
