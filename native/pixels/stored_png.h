// Reads uncompressed PNG files, because Bun.Image returns decoded pixels only as files. Formats: PNG (W3C, third
// edition), zlib (RFC 1950), stored blocks of deflate (RFC 1951).
#pragma once

#include "raster.h"

namespace pixels {

/**
 * Reads a PNG that Bun.Image wrote with `png({ compressionLevel: 0 })`: 8-bit RGBA, filter 0. Moves the pixels together
 * in place, and so overwrites the file.
 * @throws std::runtime_error for any other file
 */
Raster read_stored_png(uint8_t* png, size_t size);

}  // namespace pixels
