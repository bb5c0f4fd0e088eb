// Decoded pixels: 8-bit RGBA, row after row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

// The loops that take the time, once more for processors with AVX2: it multiplies whole numbers of 32 bits, which SSE2 does not.
#if defined(__x86_64__)
#define WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define WITH_AVX2
#endif

namespace pixels {

struct Raster {
  int64_t width = 0;
  int64_t height = 0;
  /** Of the first row; each further one is `row_bytes` behind the one before. */
  const uint8_t* rows = nullptr;
  size_t row_bytes = 0;

  const uint8_t* row(int64_t y) const { return rows + y * row_bytes; }
};

/** Pixels that are made a row at a time, best in their order: what is made is read while it is in the processor's cache. */
struct Rows {
  int64_t width;
  int64_t height;
  bool is_opaque;
  /** Colours are already multiplied by alpha, as resampling needs them: else what is transparent bleeds into what is not. */
  bool is_premultiplied;
  /** Holds until the next call. */
  std::function<const uint8_t*(int64_t y)> row;
};

/** A product of two bytes divided by 255, rounded; the division by shifts of Blinn (1995), which is exact. */
inline int divide255(int product) {
  const int sum = product + 128;
  return (sum + (sum >> 8)) >> 8;
}

/** A colour that is laid over another. */
inline uint8_t over(int colour, int alpha, int background, bool is_premultiplied) {
  const int own = is_premultiplied ? colour * 255 : colour * alpha;
  return static_cast<uint8_t>(std::min(255, divide255(own + background * (255 - alpha))));
}

}  // namespace pixels
