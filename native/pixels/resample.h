// Resizes pictures bit for bit like Pillow (Resample.c and Geometry.c).
#pragma once

#include "raster.h"

namespace pixels {

/** Filters with Pillow's names, in the order of `filters` in src/author/pixels.ts. */
enum class Filter { nearest, box, bilinear, bicubic, lanczos };

/**
 * Returns the rows of the resized picture. When a picture shrinks, all filters but `nearest` widen their kernel
 * (antialias).
 * @param source must stay alive, because it is read when rows are requested
 * @param is_opaque whether the source is opaque; if not, the rows are premultiplied, except with `nearest`
 */
Rows resample(const Raster& source, int64_t width, int64_t height, Filter filter, bool is_opaque);

}  // namespace pixels
