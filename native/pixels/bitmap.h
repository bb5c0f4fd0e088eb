// Prepares pixels for picture files.
#pragma once

#include "target.h"

namespace pixels {

constexpr size_t kBitmapHeader = 14 + 108;

struct Picture {
  std::vector<uint8_t> data;
  int64_t width;
  int64_t height;
  /** 1 (grey), 2 (grey and alpha), 3 or 4 channels. */
  int channels;
  bool is_planar;
  /** Whether `write_bitmap` blends transparent pixels over white, because JPEG has no transparency. */
  bool is_opaque;
};

/**
 * Writes the picture as a BMP file of `kBitmapHeader + width * height * 4` bytes (BITMAPV4HEADER, 32 bits per pixel):
 * Bun.Image reads raw pixels only from files.
 */
void write_bitmap(const Picture& picture, uint8_t* file);

/**
 * Writes the rows of a picture with 1 or 2 channels as PNG's filtered scanlines: `height * (1 + width * channels)`
 * bytes. Bun.Image writes PNG files with colours only. Each row has the filter "Up", which subtracts the row above.
 */
void write_scanlines(const Picture& picture, uint8_t* to);

}  // namespace pixels
