// Decodes JPEG files with the JPEG unit of an NVIDIA GPU, through the library nvJPEG.
#pragma once

#include <string>
#include <vector>

#include "jpeg.h"

namespace pixels {

/**
 * Opens the JPEG unit of a GPU for this process; after a success, later calls change nothing. Opening takes about a
 * second, and 650 MB of the GPU's memory.
 * @param libraries file names or paths of nvJPEG; the first that can be loaded is used
 * @param device index of the GPU among the visible ones
 * @returns empty on success, otherwise the reason of the failure
 */
std::string open_jpeg_unit(const std::vector<std::string>& libraries, int device);

/**
 * Decodes a JPEG like `decode_jpeg`, with equal pixels. JPEGs that threads decode at the same time form a batch.
 * @returns nothing without an open unit, for a file of another size or that the unit does not support (progressive,
 * several scans), and after an error of the GPU
 */
Decoded decode_in_unit(const std::vector<uint8_t>& file, int64_t width, int64_t height);

}  // namespace pixels
