// Decoded pixels: 8-bit RGBA, row after row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pixels {

struct Raster {
  int64_t width = 0;
  int64_t height = 0;
  /** Of the first row; each further one is `row_bytes` behind the one before. */
  const uint8_t* rows = nullptr;
  size_t row_bytes = 0;
  /** Colours are already multiplied by alpha, as resampling needs them: else what is transparent bleeds into what is not. */
  bool premultiplied = false;

  const uint8_t* row(int64_t y) const { return rows + y * row_bytes; }
};

/** A product of two bytes divided by 255, rounded; the division by shifts of Blinn (1995), which is exact. */
inline int divide255(int product) {
  const int sum = product + 128;
  return (sum + (sum >> 8)) >> 8;
}

/** A colour that is laid over another. */
inline uint8_t over(int colour, int alpha, int background, bool premultiplied) {
  const int own = premultiplied ? colour * 255 : colour * alpha;
  return static_cast<uint8_t>(std::min(255, divide255(own + background * (255 - alpha))));
}

}  // namespace pixels
