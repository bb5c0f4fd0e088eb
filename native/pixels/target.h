// Writes pixels in the form that networks take: crop, background, channel order, bytes or floats.
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "raster.h"

namespace pixels {

/** Distances of pixels and channels: interleaved, or one plane per channel. */
struct Strides {
  Strides(int64_t width, int64_t height, int64_t channels, bool is_planar)
      : pixel(is_planar ? 1 : channels), channel(is_planar ? width * height : 1) {}

  int64_t pixel;
  int64_t channel;
};

struct Target {
  int64_t width;
  int64_t height;
  /** Position of the picture's top left corner: negative crops, positive leaves a bar. */
  int64_t x;
  int64_t y;
  /** 1 (grey), 3 or 4. */
  int channels;
  bool is_bgr;
  bool is_planar;
  /** Red, green, blue. */
  std::array<uint8_t, 3> background;
  /** One per channel, for floats like torchvision's `ToTensor` and `Normalize`. */
  std::vector<float> mean;
  std::vector<float> std;
};

bool is_opaque(const Raster& raster);

/** Writes all `width * height * channels` values. */
void write_target(const Rows& rows, const Target& target, std::variant<uint8_t*, float*> result);

}  // namespace pixels
