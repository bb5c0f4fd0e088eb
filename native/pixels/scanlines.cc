#include "bitmap.h"

#include <algorithm>
#include <cstdlib>

namespace pixels {
namespace {

constexpr int kFilters = 5;

/** The prediction of PNG's filter from the bytes to the left (a), above (b) and above left (c). */
uint8_t predict(int filter, int a, int b, int c) {
  if (filter == 1) return static_cast<uint8_t>(a);
  if (filter == 2) return static_cast<uint8_t>(b);
  if (filter == 3) return static_cast<uint8_t>((a + b) / 2);
  if (filter != 4) return 0;
  const int to_a = std::abs(b - c);
  const int to_b = std::abs(a - c);
  const int to_c = std::abs(a + b - 2 * c);
  return static_cast<uint8_t>(to_a <= to_b && to_a <= to_c ? a : to_b <= to_c ? b : c);
}

}  // namespace

void write_scanlines(const Picture& picture, uint8_t* to) {
  const auto& [data, width, height, channels, is_planar, is_opaque] = picture;
  const Strides strides(width, height, channels, is_planar);
  // Both rows begin with zeros in place of the pixel on the left of the picture.
  std::vector<uint8_t> above((width + 1) * channels);
  std::vector<uint8_t> row(above.size());
  std::vector<uint8_t> filtered(above.size() - channels);
  for (int64_t y = 0; y < height; ++y, to += 1 + filtered.size()) {
    for (int64_t x = 0; x < width; ++x) {
      for (int channel = 0; channel < channels; ++channel) {
        row[(x + 1) * channels + channel] = data[(y * width + x) * strides.pixel + channel * strides.channel];
      }
    }
    int64_t least = -1;
    for (int filter = 0; filter < kFilters; ++filter) {
      int64_t sum = 0;
      for (size_t i = 0; i < filtered.size(); ++i) {
        filtered[i] = row[i + channels] - predict(filter, row[i], above[i + channels], above[i]);
        sum += std::abs(static_cast<int8_t>(filtered[i]));
      }
      if (least >= 0 && sum >= least) continue;
      least = sum;
      to[0] = static_cast<uint8_t>(filter);
      std::copy(filtered.begin(), filtered.end(), to + 1);
    }
    std::swap(row, above);
  }
}

}  // namespace pixels
