// Filters the rows of a grey picture for a PNG file. Bun.Image writes PNG files with colours only.
#pragma once

#include "bitmap.h"

namespace pixels {

/**
 * Writes the rows of a picture with 1 or 2 channels as PNG's filtered scanlines: `height * (1 + width * channels)`
 * bytes. Each row has the filter with the smallest sum of absolute differences (PNG specification, 12.7).
 */
void write_scanlines(const Picture& picture, uint8_t* to);

}  // namespace pixels
