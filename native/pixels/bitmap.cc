#include "bitmap.h"

#include <cstring>

namespace pixels {
namespace {

void put(uint8_t* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace

void write_bitmap(const Picture& picture, uint8_t* file) {
  const auto& [data, width, height, channels, is_planar, is_opaque] = picture;
  const int64_t pixels = width * height;
  std::memset(file, 0, kBitmapHeader);
  file[0] = 'B';
  file[1] = 'M';
  put(file + 2, kBitmapHeader + pixels * 4);
  put(file + 10, kBitmapHeader);
  put(file + 14, kBitmapHeader - 14);
  put(file + 18, width);
  // A negative height means that rows are stored from top to bottom.
  put(file + 22, -height);
  put(file + 26, 1 | 32 << 16);
  put(file + 30, 3);
  // Bit masks of red, green, blue and alpha.
  for (int channel = 0; channel < 4; ++channel) put(file + 54 + channel * 4, 0xffU << (8 * channel));
  uint8_t* to = file + kBitmapHeader;
  const Strides strides(width, height, channels, is_planar);
  for (int64_t i = 0; i < pixels; ++i, to += 4) {
    const uint8_t* from = data.data() + i * strides.pixel;
    for (int channel = 0; channel < 3; ++channel) to[channel] = from[channels < 3 ? 0 : channel * strides.channel];
    to[3] = channels % 2 == 0 ? from[(channels - 1) * strides.channel] : 255;
    if (!is_opaque || to[3] == 255) continue;
    for (int channel = 0; channel < 3; ++channel) to[channel] = over(to[channel], to[3], 255, false);
    to[3] = 255;
  }
}

void write_scanlines(const Picture& picture, uint8_t* to) {
  constexpr uint8_t kUp = 2;
  const auto& [data, width, height, channels, is_planar, is_opaque] = picture;
  const Strides strides(width, height, channels, is_planar);
  for (int64_t y = 0; y < height; ++y) {
    *to++ = kUp;
    for (int64_t x = 0; x < width; ++x) {
      for (int channel = 0; channel < channels; ++channel) {
        const int64_t at = (y * width + x) * strides.pixel + channel * strides.channel;
        *to++ = data[at] - (y == 0 ? 0 : data[at - width * strides.pixel]);
      }
    }
  }
}

}  // namespace pixels
