// Pixels as a network takes them: which of them, over which background, in which order, as bytes or as floats.
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "raster.h"

namespace pixels {

/** The rows of a picture one after the other: pixel after pixel, or one plane a channel. */
struct Strides {
  Strides(int64_t width, int64_t height, int64_t channels, bool is_planar)
      : pixel(is_planar ? 1 : channels), channel(is_planar ? width * height : 1) {}

  int64_t pixel;
  int64_t channel;
};

struct Target {
  int64_t width;
  int64_t height;
  /** Where the top left corner of the picture lies: negative cuts off, positive leaves a bar. */
  int64_t x;
  int64_t y;
  /** 1: grey, 3 or 4. */
  int channels;
  bool is_bgr;
  bool is_planar;
  /** Red, green, blue. */
  std::array<uint8_t, 3> background;
  /** One a channel; with them come floats, as those of torchvision's `ToTensor` and `Normalize`. */
  std::vector<float> mean;
  std::vector<float> std;
};

bool is_opaque(const Raster& raster);

/** Writes all `width * height * channels` values. */
void write_target(const Rows& rows, const Target& target, std::variant<uint8_t*, float*> result);

}  // namespace pixels
