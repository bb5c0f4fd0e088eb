// PNG files whose pixels are stored, not compressed: how decoded pixels get out of Bun.Image, which writes only files.
// Formats: PNG (W3C, third edition), zlib (RFC 1950), deflate (RFC 1951) stored blocks.
#pragma once

#include "raster.h"

namespace pixels {

/**
 * Reads what Bun.Image writes with `png({ compressionLevel: 0 })`: 8-bit RGBA, filter 0. The pixels are put together where they are,
 * over the file.
 * @throws std::runtime_error for any other file
 */
Raster read_stored_png(uint8_t* png, size_t size);

}  // namespace pixels
