// Uncompressed PNG files, to get decoded pixels from Bun.Image, which writes only files. Formats: PNG (W3C, third
// edition), zlib (RFC 1950), deflate (RFC 1951) stored blocks.
#pragma once

#include "raster.h"

namespace pixels {

/**
 * Reads the output of Bun.Image's `png({ compressionLevel: 0 })`: 8-bit RGBA, filter 0. Compacts the pixels in place,
 * overwriting the file.
 * @throws std::runtime_error for any other file
 */
Raster read_stored_png(uint8_t* png, size_t size);

}  // namespace pixels
