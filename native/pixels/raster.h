// Decoded pixels in rows: 8-bit RGBA.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

// Compiles a hot loop twice: for all processors, and for AVX2, which can multiply 32-bit integers (SSE2 cannot).
#if defined(__x86_64__)
#define WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define WITH_AVX2
#endif

namespace pixels {

struct Raster {
  int64_t width = 0;
  int64_t height = 0;
  /** The first row; later rows follow at a distance of `row_bytes`. */
  const uint8_t* rows = nullptr;
  size_t row_bytes = 0;

  const uint8_t* row(int64_t y) const { return rows + y * row_bytes; }
};

/**
 * Pixels that are produced row by row on demand. Read rows in order, so that each is used while it is in the
 * processor's cache.
 */
struct Rows {
  int64_t width;
  int64_t height;
  bool is_opaque;
  /**
   * Whether colours are multiplied by alpha. Resampling multiplies them; otherwise transparent pixels would bleed into
   * opaque ones.
   */
  bool is_premultiplied;
  /** Returns row `y`, which is valid until the next call. */
  std::function<const uint8_t*(int64_t y)> row;
};

/** Divides the product of two bytes by 255, rounded. Exact division by shifts from Blinn (1995). */
inline int divide255(int product) {
  const int sum = product + 128;
  return (sum + (sum >> 8)) >> 8;
}

/** Blends one channel of a colour over a background. */
inline uint8_t over(int colour, int alpha, int background, bool is_premultiplied) {
  const int own = is_premultiplied ? colour * 255 : colour * alpha;
  return static_cast<uint8_t>(std::min(255, divide255(own + background * (255 - alpha))));
}

}  // namespace pixels
