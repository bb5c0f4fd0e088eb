#include "target.h"

#include <cstring>

namespace pixels {
namespace {

/** ITU-R BT.601 in 16-bit fixed point, as Pillow converts to "L". */
uint8_t luma(const uint8_t* pixel) { return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16; }

/** What shows of a row of pixels: laid over the background, or with the colours as they were before they were multiplied. */
void show_row(const uint8_t* row, int64_t count, const Target& target, bool premultiplied, uint8_t* result) {
  std::memcpy(result, row, count * 4);
  for (uint8_t* pixel = result; pixel < result + count * 4; pixel += 4) {
    const int alpha = pixel[3];
    if (alpha == 255) continue;
    for (int channel = 0; channel < 3; ++channel) {
      if (target.channels != 4) {
        pixel[channel] = over(pixel[channel], alpha, target.background[channel], premultiplied);
      } else if (premultiplied && alpha > 0) {
        pixel[channel] = static_cast<uint8_t>(std::min(255, pixel[channel] * 255 / alpha));
      }
    }
  }
}

/** What each of the 256 values of a channel becomes; rounded to float32 at every step, as there. */
std::array<float, 256> table_of(float mean, float std) {
  std::array<float, 256> table;
  for (int value = 0; value < 256; ++value) {
    table[value] = (static_cast<float>(value) / 255.0F - mean) / std;
  }
  return table;
}

/** Writes rows of RGBA; `store(channel, value)` is what becomes of a value. */
template <typename Value, typename Store>
void write_rows(const Raster& raster, const Target& target, Value* result, const Store& store) {
  const Strides strides(target.width, target.height, target.channels, target.is_planar);
  const int64_t first = std::max<int64_t>(0, target.x);
  const int64_t count = std::min(target.width, target.x + raster.width) - first;
  const bool is_covered = first == 0 && count == target.width;
  const bool opaque = is_opaque(raster);
  const auto& [red, green, blue] = target.background;
  std::vector<uint8_t> bar(target.width * 4);
  for (size_t at = 0; at < bar.size(); at += 4) std::memcpy(&bar[at], std::array<uint8_t, 4>{red, green, blue, 255}.data(), 4);
  std::vector<uint8_t> shown(opaque && is_covered ? 0 : target.width * 4);
  for (int64_t y = 0; y < target.height; ++y) {
    const int64_t source_y = y - target.y;
    const uint8_t* row = bar.data();
    if (source_y >= 0 && source_y < raster.height && count > 0) {
      const uint8_t* source = raster.row(source_y) + (first - target.x) * 4;
      row = source;
      if (!opaque || !is_covered) {
        if (!is_covered) shown = bar;
        show_row(source, count, target, raster.premultiplied, shown.data() + first * 4);
        row = shown.data();
      }
    }
    Value* to = result + y * target.width * strides.pixel;
    if (target.channels == 1) {
      for (int64_t x = 0; x < target.width; ++x) to[x] = store(0, luma(row + x * 4));
      continue;
    }
    for (int channel = 0; channel < target.channels; ++channel) {
      const uint8_t* from = row + (target.is_bgr && channel < 3 ? 2 - channel : channel);
      Value* at = to + channel * strides.channel;
      for (int64_t x = 0; x < target.width; ++x) at[x * strides.pixel] = store(channel, from[x * 4]);
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

void write_target(const Raster& raster, const Target& target, std::variant<uint8_t*, float*> result) {
  if (const auto* bytes = std::get_if<uint8_t*>(&result)) {
    write_rows(raster, target, *bytes, [](int, uint8_t value) { return value; });
    return;
  }
  std::vector<std::array<float, 256>> tables;
  for (int channel = 0; channel < target.channels; ++channel) {
    tables.push_back(table_of(target.mean[channel], target.std[channel]));
  }
  write_rows(raster, target, std::get<float*>(result), [&](int channel, uint8_t value) { return tables[channel][value]; });
}

}  // namespace pixels
