// Decodes the first picture of GIF files (CompuServe, GIF89a).
#pragma once

#include "decoded.h"
#include "file_bytes.h"

namespace pixels {

bool is_gif(const FileBytes& file);

/** Width and height of the screen, without decoding. @throws UnreadablePicture */
Size gif_size(const FileBytes& file);

/**
 * Decodes as Pillow does: the screen grows to hold the frame. The area around the frame is transparent if the frame
 * has a transparent colour, otherwise it has the first colour.
 * @throws UnreadablePicture for a file without all pixels of the frame
 */
Decoded read_gif(const FileBytes& file);

}  // namespace pixels
