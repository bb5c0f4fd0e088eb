// Decoders of BMP, GIF and JPEG files. Bun.Image decodes the other formats to uncompressed PNG files, because it returns
// decoded pixels only as files.
#pragma once

#include <vector>

#include "decoded.h"
#include "file_bytes.h"

namespace pixels {

bool is_bmp(const FileBytes& file);

/** Width and height, without decoding. @throws UnreadablePicture */
Size bmp_size(const FileBytes& file);

/**
 * Decodes BMP files of Windows and OS/2: palettes of 1, 2, 4 and 8 bits, run lengths, 16, 24 and 32 bits, bit masks.
 * Decodes as Pillow does: without bit masks, the fourth byte of 32-bit pixels is no alpha, and pixels that a run-length
 * encoded file omits have the first colour.
 * @throws UnreadablePicture for a file that is cut off, and for other variants, with their name
 */
Decoded read_bmp(const FileBytes& file);

bool is_gif(const FileBytes& file);

/** Width and height of the screen, without decoding. @throws UnreadablePicture */
Size gif_size(const FileBytes& file);

/**
 * Decodes the first picture (CompuServe, GIF89a) as Pillow does: the screen grows to hold the frame. The area around the
 * frame is transparent if the frame has a transparent colour, otherwise it has the first colour.
 * @throws UnreadablePicture for a file without all pixels of the frame
 */
Decoded read_gif(const FileBytes& file);

/**
 * Decodes with libjpeg-turbo and libjpeg's defaults: exact transform, smooth chroma upsampling.
 * @param width expected width; a file of another width or height is not decoded
 * @returns nothing for corrupt and unusual files (four colours, 12 bits, lossless), and on systems that cannot load a
 * library from memory
 */
Decoded decode_jpeg(const std::vector<uint8_t>& file, int64_t width, int64_t height);

/**
 * Reads a PNG that Bun.Image wrote with `png({ compressionLevel: 0 })`: 8-bit RGBA, filter 0, stored blocks of deflate
 * (PNG, W3C, third edition; RFC 1950 and 1951). Moves the pixels together in place, and so overwrites the file.
 * @throws std::runtime_error for any other file
 */
Raster read_stored_png(uint8_t* png, size_t size);

}  // namespace pixels
