// Writes pixels in the form that networks take: cropped, over a background, in a channel order, as bytes or floats.
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "raster.h"

namespace pixels {

/** Distances between pixels and between channels, in elements: interleaved, or with one plane for each channel. */
struct Strides {
  Strides(int64_t width, int64_t height, int64_t channels, bool is_planar)
      : pixel(is_planar ? 1 : channels), channel(is_planar ? width * height : 1) {}

  int64_t pixel;
  int64_t channel;
};

struct Target {
  int64_t width;
  int64_t height;
  /**
   * Position of the picture's top left corner in the target. Negative values crop the picture, positive values leave a
   * bar.
   */
  int64_t x;
  int64_t y;
  /** 1 (grey), 3 or 4 channels. */
  int channels;
  bool is_bgr;
  bool is_planar;
  /** Red, green and blue of the background. */
  std::array<uint8_t, 3> background{};
  /**
   * Mean and deviation of each channel, for float results as from torchvision's `ToTensor` and `Normalize`; empty for
   * bytes.
   */
  std::vector<float> mean{};
  std::vector<float> std{};
};

bool is_opaque(const Raster& raster);

/** Writes all `width * height * channels` values of the target. */
void write_target(const Rows& rows, const Target& target, std::variant<uint8_t*, float*> result);

}  // namespace pixels
