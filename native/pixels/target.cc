#include "target.h"

#include <cstring>
#include <type_traits>

namespace pixels {
namespace {

/** Brightness of a pixel: ITU-R BT.601 in 16-bit fixed point, like Pillow's conversion to "L". */
uint8_t luma(const uint8_t* pixel) { return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16; }

/**
 * Blends a row over the background. With four channels there is no background: divides premultiplied colours by alpha
 * instead.
 */
void show_row(const uint8_t* row, int64_t count, const Target& target, bool is_premultiplied, uint8_t* result) {
  std::memcpy(result, row, count * 4);
  for (uint8_t* pixel = result; pixel < result + count * 4; pixel += 4) {
    const int alpha = pixel[3];
    if (alpha == 255) continue;
    for (int channel = 0; channel < 3; ++channel) {
      if (target.channels != 4) {
        pixel[channel] = over(pixel[channel], alpha, target.background[channel], is_premultiplied);
      } else if (is_premultiplied && alpha > 0) {
        pixel[channel] = static_cast<uint8_t>(std::min(255, pixel[channel] * 255 / alpha));
      }
    }
  }
}

/** The normalized value of each of the 256 channel values, rounded to float32 at every step like torchvision. */
std::array<float, 256> table_of(float mean, float std) {
  std::array<float, 256> table;
  for (int value = 0; value < 256; ++value) {
    table[value] = (static_cast<float>(value) / 255.0F - mean) / std;
  }
  return table;
}

/** Copies one channel of a row. Compilers can vectorize the simple loop. */
WITH_AVX2 void write_plane(const uint8_t* __restrict from, int64_t count, uint8_t* __restrict result) {
  for (int64_t x = 0; x < count; ++x) result[x] = from[x * 4];
}

/** Writes all rows of the target. `store(channel, value)` converts a channel value. */
template <typename Value, typename Store>
void write_rows(const Rows& rows, const Target& target, Value* result, const Store& store) {
  // Local copies, because the compiler must assume that each write changes the originals.
  const int64_t width = target.width;
  const auto [pixel_stride, channel_stride] = Strides(width, target.height, target.channels, target.is_planar);
  const int64_t first = std::max<int64_t>(0, target.x);
  const int64_t count = std::min(width, target.x + rows.width) - first;
  const bool is_covered = first == 0 && count == width;
  const auto& [red, green, blue] = target.background;
  std::vector<uint8_t> bar(width * 4);
  for (size_t at = 0; at < bar.size(); at += 4) std::memcpy(&bar[at], std::array<uint8_t, 4>{red, green, blue, 255}.data(), 4);
  std::vector<uint8_t> shown(rows.is_opaque && is_covered ? 0 : width * 4);
  for (int64_t y = 0; y < target.height; ++y) {
    const int64_t source_y = y - target.y;
    const uint8_t* row = bar.data();
    if (source_y >= 0 && source_y < rows.height && count > 0) {
      row = rows.row(source_y) + (first - target.x) * 4;
      if (!rows.is_opaque || !is_covered) {
        if (!is_covered) shown = bar;
        show_row(row, count, target, rows.is_premultiplied, shown.data() + first * 4);
        row = shown.data();
      }
    }
    Value* to = result + y * width * pixel_stride;
    if (target.channels == 1) {
      for (int64_t x = 0; x < width; ++x) to[x] = store(0, luma(row + x * 4));
      continue;
    }
    for (int channel = 0; channel < target.channels; ++channel) {
      const uint8_t* from = row + (target.is_bgr && channel < 3 ? 2 - channel : channel);
      Value* at = to + channel * channel_stride;
      if constexpr (std::is_same_v<Value, uint8_t>) {
        if (target.is_planar) {
          write_plane(from, width, at);
          continue;
        }
      }
      for (int64_t x = 0; x < width; ++x) at[x * pixel_stride] = store(channel, from[x * 4]);
    }
  }
}

}  // namespace

bool is_opaque(const Raster& raster) {
  for (int64_t y = 0; y < raster.height; ++y) {
    const uint8_t* row = raster.row(y);
    uint8_t all = 255;
    for (int64_t x = 0; x < raster.width; ++x) all &= row[x * 4 + 3];
    if (all != 255) return false;
  }
  return true;
}

void write_target(const Rows& rows, const Target& target, std::variant<uint8_t*, float*> result) {
  if (const auto* bytes = std::get_if<uint8_t*>(&result)) {
    write_rows(rows, target, *bytes, [](int, uint8_t value) { return value; });
    return;
  }
  std::vector<std::array<float, 256>> tables;
  for (int channel = 0; channel < target.channels; ++channel) {
    tables.push_back(table_of(target.mean[channel], target.std[channel]));
  }
  write_rows(rows, target, std::get<float*>(result), [&](int channel, uint8_t value) { return tables[channel][value]; });
}

}  // namespace pixels
