#include "decoded.h"

#include <cstring>

#include "file_bytes.h"

namespace pixels {

Decoded place(const Raster& frame, const Canvas& canvas) {
  const auto& [size, left, top, is_opaque] = canvas;
  if (left + frame.width > size.width || top + frame.height > size.height) throw UnreadablePicture::damaged();
  Decoded whole = Decoded::of(size);
  std::memset(whole.memory.get(), 0, whole.raster.row_bytes * size.height);
  for (int64_t y = 0; y < frame.height; ++y) std::memcpy(whole.row(top + y) + left * 4, frame.row(y), frame.width * 4);
  if (is_opaque) {
    for (int64_t i = 0; i < size.width * size.height; ++i) whole.memory[i * 4 + 3] = 255;
  }
  return whole;
}

Decoded orient(const Raster& whole, int orientation) {
  // The four mirrored and rotated forms with exchanged sides have the codes 5 to 8.
  const bool is_transposed = orientation >= 5;
  const bool is_mirrored = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool is_upside_down = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Decoded turned = Decoded::of(is_transposed ? Size{whole.height, whole.width} : Size{whole.width, whole.height});
  for (int64_t y = 0; y < turned.raster.height; ++y) {
    uint8_t* to = turned.row(y);
    for (int64_t x = 0; x < turned.raster.width; ++x, to += 4) {
      const int64_t across = is_transposed ? y : x;
      const int64_t down = is_transposed ? x : y;
      const uint8_t* row = whole.row(is_upside_down ? whole.height - 1 - down : down);
      std::memcpy(to, row + (is_mirrored ? whole.width - 1 - across : across) * 4, 4);
    }
  }
  return turned;
}

}  // namespace pixels
