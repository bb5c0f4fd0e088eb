// Decodes JPEG files with libjpeg-turbo.
#pragma once

#include <vector>

#include "decoded.h"

namespace pixels {

/**
 * Decodes with libjpeg's defaults: exact transform, smooth chroma upsampling.
 * @param width expected width; a file of another width or height is not decoded
 * @returns nothing for corrupt and unusual files (four colours, 12 bits, lossless), and on systems that cannot load a
 * library from memory
 */
Decoded decode_jpeg(const std::vector<uint8_t>& file, int64_t width, int64_t height);

}  // namespace pixels
