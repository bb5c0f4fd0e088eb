// Decoded pictures, and the steps between decoding and scaling.
#pragma once

#include <memory>

#include "raster.h"

namespace pixels {

struct Size {
  int64_t width = 0;
  int64_t height = 0;

  bool operator==(const Size&) const = default;
};

/** Decoded pixels, 8-bit RGBA. `memory` is null if the file was not decoded. */
struct Decoded {
  /** Pixels without values. */
  static Decoded of(Size size) {
    const size_t row_bytes = static_cast<size_t>(size.width) * 4;
    std::unique_ptr<uint8_t[]> memory(new uint8_t[row_bytes * size.height]);
    const Raster raster{size.width, size.height, memory.get(), row_bytes};
    return {std::move(memory), raster};
  }

  uint8_t* row(int64_t y) { return memory.get() + y * raster.row_bytes; }

  std::unique_ptr<uint8_t[]> memory;
  Raster raster;
};

/** The canvas of an animation, and the position of a frame on it. */
struct Canvas {
  Size size;
  int64_t x = 0;
  int64_t y = 0;
  /** Whether the animation has no transparency. The area around the frame is then black. */
  bool is_opaque = false;
};

/** Places a frame on its canvas. @throws UnreadablePicture for a frame that is partly outside */
Decoded place(const Raster& frame, const Canvas& canvas);

/** Rotates and mirrors a picture by its Exif orientation, 2 to 8 (Exif 2.32, 4.6.4). */
Decoded orient(const Raster& whole, int orientation);

}  // namespace pixels
