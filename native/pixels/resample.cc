#include "resample.h"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace pixels {
namespace {

/** Fixed-point weights have this many fractional bits. */
constexpr int kPrecision = 22;
constexpr int32_t kHalf = 1 << (kPrecision - 1);
/** Most 32-bit values of resampled rows kept for reuse. For extreme shapes, rows are computed again. */
constexpr size_t kMaxKept = size_t{8} << 20;

struct Kernel {
  /** Radius of the kernel in source pixels, when the size does not change. */
  double support;
  double (*weight)(double);
};

double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

double bilinear(double x) { return std::max(0.0, 1 - std::abs(x)); }

/** Keys' cubic convolution, a = -0.5. */
double bicubic(double distance) {
  const double x = std::abs(distance);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

double sinc(double x) { return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x); }

double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

Kernel kernel_of(Filter filter) {
  switch (filter) {
    case Filter::box: return {0.5, box};
    case Filter::bicubic: return {2, bicubic};
    case Filter::lanczos: return {3, lanczos};
    default: return {1, bilinear};
  }
}

/**
 * Along one axis, the source pixels and weights of each target pixel. All target pixels have the same count of weights,
 * because loops of constant length predict well; surplus weights are 0.
 */
struct Axis {
  /** Index of the first source pixel, for each target pixel. */
  std::vector<int64_t> first;
  int64_t count = 1;
  /** `count` weights for each target pixel. */
  std::vector<int32_t> weights;
};

Axis axis_of(int64_t size, int64_t target_size, const Kernel& kernel) {
  const double scale = static_cast<double>(size) / target_size;
  const double widening = std::max(1.0, scale);
  const double narrowing = 1 / widening;
  const double reach = kernel.support * widening;
  Axis axis;
  axis.first.resize(target_size);
  axis.count = std::min(size, static_cast<int64_t>(2 * reach) + 1);
  axis.weights.resize(target_size * axis.count);
  std::vector<double> exact(axis.count);
  for (int64_t target = 0; target < target_size; ++target) {
    const double centre = (target + 0.5) * scale;
    const auto begin = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
    const auto end = std::min<int64_t>(size, static_cast<int64_t>(centre + reach + 0.5));
    double sum = 0;
    for (int64_t at = begin; at < end; ++at) {
      exact[at - begin] = kernel.weight((at - centre + 0.5) * narrowing);
      sum += exact[at - begin];
    }
    const int64_t first = std::min(begin, size - axis.count);
    int32_t* weights = axis.weights.data() + target * axis.count + (begin - first);
    for (int64_t i = 0; i < end - begin; ++i) weights[i] = std::lround(exact[i] / sum * (1 << kPrecision));
    axis.first[target] = first;
  }
  return axis;
}

/** The four channels of a pixel. */
typedef int32_t Ints4 __attribute__((vector_size(16)));

WITH_AVX2 void widen(const uint8_t* row, size_t count, int32_t* result) {
  for (size_t i = 0; i < count; ++i) result[i] = row[i];
}

/**
 * Resamples a row horizontally. If `known` is not 0, it is the number of weights for each pixel, and the compiler
 * unrolls the loop.
 */
template <int known>
[[gnu::always_inline]] inline void resample_row_of(const int32_t* row, const Axis& axis, int32_t* result) {
  const int64_t count = known == 0 ? axis.count : known;
  const int32_t* weights = axis.weights.data();
  for (const int64_t first : axis.first) {
    Ints4 sum = {kHalf, kHalf, kHalf, kHalf};
    for (int64_t i = 0; i < count; ++i) {
      Ints4 pixel;
      std::memcpy(&pixel, row + (first + i) * 4, sizeof pixel);
      sum += pixel * weights[i];
    }
    sum >>= kPrecision;
    sum = sum < 0 ? Ints4{} : sum;
    sum = sum > 255 ? Ints4{} + 255 : sum;
    std::memcpy(result, &sum, sizeof sum);
    result += 4;
    weights += count;
  }
}

WITH_AVX2 void resample_row(const int32_t* row, const Axis& axis, int32_t* result) {
  switch (axis.count) {
    case 3: return resample_row_of<3>(row, axis, result);
    case 4: return resample_row_of<4>(row, axis, result);
    case 5: return resample_row_of<5>(row, axis, result);
    default: return resample_row_of<0>(row, axis, result);
  }
}

/**
 * Rows that are added in one pass over the sums. A pass for each row would be slow, because each pass reads and writes
 * all sums.
 */
constexpr int kTogether = 4;

struct Weighted {
  std::array<const int32_t*, kTogether> rows;
  std::array<int32_t, kTogether> weights;
};

/** Adds the weighted rows to the sums, and calls `store(i, sum)` with each result. */
template <typename Store>
[[gnu::always_inline]] inline void add_rows(const int32_t* sums, const Weighted& added, size_t count, const Store& store) {
  const auto [a, b, c, d] = added.rows;
  const auto [of_a, of_b, of_c, of_d] = added.weights;
  for (size_t i = 0; i < count; ++i) store(i, sums[i] + a[i] * of_a + b[i] * of_b + c[i] * of_c + d[i] * of_d);
}

WITH_AVX2 void add_weighted(const Weighted& added, size_t count, int32_t* __restrict sums) {
  add_rows(sums, added, count, [=](size_t i, int32_t sum) { sums[i] = sum; });
}

WITH_AVX2 void write_row(const int32_t* sums, const Weighted& added, size_t count, uint8_t* __restrict result) {
  add_rows(sums, added, count, [=](size_t i, int32_t sum) {
    int32_t value = sum >> kPrecision;
    value = value < 0 ? 0 : value;
    result[i] = value > 255 ? 255 : value;
  });
}

void premultiply(const uint8_t* row, int64_t width, int32_t* result) {
  for (int64_t at = 0; at < width * 4; at += 4) {
    const int alpha = row[at + 3];
    for (int channel = 0; channel < 3; ++channel) result[at + channel] = divide255(row[at + channel] * alpha);
    result[at + 3] = alpha;
  }
}

/**
 * Produces rows of the resized picture. Scales horizontally first. If the height loses more than twice as many pixels
 * as the width, scales vertically first, like Pillow 13 (found by comparison). The order matters, because each step
 * rounds to whole numbers.
 */
class Resampler {
 public:
  Resampler(const Raster& source, int64_t width, int64_t height, const Kernel& kernel, bool is_opaque)
      : source_(source),
        columns_(axis_of(source.width, width, kernel)),
        rows_(axis_of(source.height, height, kernel)),
        is_vertical_first_(height < source.height && source.height - height > 2 * (source.width - width)),
        row_size_((is_vertical_first_ ? source.width : width) * 4),
        is_opaque_(is_opaque),
        held_(std::min<int64_t>(rows_.count, std::max<int64_t>(kTogether, kMaxKept / row_size_)), -1),
        kept_(held_.size() * row_size_),
        wide_(source.width * 4),
        sums_(row_size_, kHalf),
        added_(row_size_),
        stretched_(is_vertical_first_ ? width * 4 : 0),
        result_(stretched_.size()) {}

  const uint8_t* row(int64_t y) {
    if (rows_.count > kTogether) std::fill(sums_.begin(), sums_.end(), kHalf);
    int64_t i = 0;
    for (; i + kTogether < rows_.count; i += kTogether) add_weighted(weighted(y, i), row_size_, sums_.data());
    write_row(sums_.data(), weighted(y, i), row_size_, added_.data());
    if (!is_vertical_first_) return added_.data();
    widen(added_.data(), row_size_, wide_.data());
    resample_row(wide_.data(), columns_, stretched_.data());
    std::copy(stretched_.begin(), stretched_.end(), result_.begin());
    return result_.data();
  }

 private:
  /** The next source rows of target row `y`, from the `i`th on, with their weights; at most `kTogether`. */
  Weighted weighted(int64_t y, int64_t i) {
    Weighted part;
    for (int64_t j = 0; j < kTogether; ++j) {
      part.weights[j] = i + j < rows_.count ? rows_.weights[y * rows_.count + i + j] : 0;
      part.rows[j] = part.weights[j] == 0 ? kept_.data() : source_row(rows_.first[y] + i + j);
    }
    return part;
  }

  const int32_t* source_row(int64_t y) {
    const size_t place = y % held_.size();
    int32_t* kept = kept_.data() + place * row_size_;
    if (held_[place] == y) return kept;
    held_[place] = y;
    int32_t* const values = is_vertical_first_ ? kept : wide_.data();
    if (is_opaque_) widen(source_.row(y), wide_.size(), values);
    else premultiply(source_.row(y), source_.width, values);
    if (!is_vertical_first_) resample_row(values, columns_, kept);
    return kept;
  }

  const Raster source_;
  const Axis columns_;
  const Axis rows_;
  const bool is_vertical_first_;
  /** Number of values in a kept row. */
  const size_t row_size_;
  const bool is_opaque_;
  /** Index of the source row in each slot of `kept_`; -1 for an empty slot. */
  std::vector<int64_t> held_;
  std::vector<int32_t> kept_;
  std::vector<int32_t> wide_;
  std::vector<int32_t> sums_;
  std::vector<uint8_t> added_;
  /** A row after both steps, if the vertical step comes first. */
  std::vector<int32_t> stretched_;
  std::vector<uint8_t> result_;
};

/**
 * Index of the source pixel under the centre of each target pixel. Adds up the steps as Pillow does, whose rounding
 * decides between two pixels.
 */
std::vector<int64_t> nearest(int64_t size, int64_t target_size) {
  const double step = static_cast<double>(size) / target_size;
  std::vector<int64_t> under;
  for (double at = step * 0.5; static_cast<int64_t>(under.size()) < target_size; at += step) {
    under.push_back(std::min(size - 1, static_cast<int64_t>(at)));
  }
  return under;
}

}  // namespace

Rows resample(const Raster& source, int64_t width, int64_t height, Filter filter, bool is_opaque) {
  if (filter != Filter::nearest) {
    const auto made = std::make_shared<Resampler>(source, width, height, kernel_of(filter), is_opaque);
    return {width, height, is_opaque, !is_opaque, [made](int64_t y) { return made->row(y); }};
  }
  const auto take = [=, result = std::vector<uint8_t>(width * 4), columns = nearest(source.width, width),
                     rows = nearest(source.height, height)](int64_t y) mutable {
    const uint8_t* row = source.row(rows[y]);
    for (int64_t x = 0; x < width; ++x) std::memcpy(&result[x * 4], row + columns[x] * 4, 4);
    return static_cast<const uint8_t*>(result.data());
  };
  return {width, height, is_opaque, false, take};
}

}  // namespace pixels
