// BMP files, to pass raw pixels to Bun.Image, which reads only files. Format: BITMAPV4HEADER, 32 bits per pixel.
#pragma once

#include "target.h"

namespace pixels {

constexpr size_t kBitmapHeader = 14 + 108;

struct Picture {
  std::vector<uint8_t> data;
  int64_t width;
  int64_t height;
  /** 1 (grey), 3 or 4. */
  int channels;
  bool is_planar;
  /** Whether `write_bitmap` blends transparent pixels over white. JPEG has no transparency. */
  bool is_opaque;
};

/** Writes `kBitmapHeader + width * height * 4` bytes. */
void write_bitmap(const Picture& picture, uint8_t* file);

}  // namespace pixels
