// JPEG files, decoded by libjpeg-turbo.
#pragma once

#include <memory>
#include <vector>

#include "raster.h"

namespace pixels {

/** The pixels of a file, 8-bit RGBA. */
struct Decoded {
  std::unique_ptr<uint8_t[]> memory;
  Raster raster;
};

/**
 * Decodes as libjpeg does by default: the exact transform, smooth chrominance.
 * @param width of the file, and `height`: with others nothing is decoded
 * @returns nothing of a file that is corrupt or of an unusual kind (four colours, 12 bits, without loss), and where the system runs no
 *   library from memory
 */
Decoded decode_jpeg(const std::vector<uint8_t>& file, int64_t width, int64_t height);

}  // namespace pixels
