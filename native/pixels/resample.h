// Resizes pictures bit-exactly like Pillow (Resample.c and Geometry.c).
#pragma once

#include "raster.h"

namespace pixels {

/** Pillow's names, in the order of `filters` in src/author/pixels.ts. */
enum class Filter { nearest, box, bilinear, bicubic, lanczos };

/**
 * All filters but `nearest` widen their support when shrinking (antialias).
 * @param source read while rows are requested
 * @param is_opaque whether the source is opaque; if not, the rows are premultiplied, except with `nearest`
 */
Rows resample(const Raster& source, int64_t width, int64_t height, Filter filter, bool is_opaque);

}  // namespace pixels
