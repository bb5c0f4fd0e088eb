// Pictures in another size, as Pillow makes them (Resample.c and Geometry.c), to the bit.
#pragma once

#include "raster.h"

namespace pixels {

/** Named as in Pillow, in the order of `filters` in src/native/pixels.ts. */
enum class Filter { nearest, box, bilinear, bicubic, lanczos };

/**
 * All filters but `nearest` widen their support when shrinking (antialias).
 * @param source is read as rows are asked for
 * @param is_opaque of the source; if it is not, the rows are premultiplied, but with `nearest`
 */
Rows resample(const Raster& source, int64_t width, int64_t height, Filter filter, bool is_opaque);

}  // namespace pixels
