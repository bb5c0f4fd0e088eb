// Decodes BMP files of Windows and OS/2: palettes of 1, 2, 4 and 8 bits, RLE, 16, 24 and 32 bits, bit masks.
#pragma once

#include "decoded.h"
#include "file_bytes.h"

namespace pixels {

bool is_bmp(const FileBytes& file);

/** Width and height, without decoding. @throws UnreadablePicture */
Size bmp_size(const FileBytes& file);

/**
 * Decodes as Pillow does: without bit masks, the fourth byte of 32-bit pixels is no alpha. If a
 * run-length encoded file omits pixels, they have the first colour.
 * @throws UnreadablePicture for a file that is cut off, and for other variants, with their name
 */
Decoded read_bmp(const FileBytes& file);

}  // namespace pixels
