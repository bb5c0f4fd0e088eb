// Pictures in another size, as Pillow makes them (Resample.c and Geometry.c), to the bit.
#pragma once

#include <vector>

#include "raster.h"

namespace pixels {

/** Named as in Pillow, in the order of `filters` in src/native/pixels.ts. */
enum class Filter { nearest, box, bilinear, bicubic, lanczos };

/** A raster in memory of its own. */
struct Resampled {
  Raster raster;
  std::vector<uint8_t> bytes;
};

/**
 * All filters but `nearest` widen their support when shrinking (antialias).
 * @param is_opaque of the source; if it is not, what comes back is premultiplied, but with `nearest`
 */
Resampled resample(const Raster& source, int64_t width, int64_t height, Filter filter, bool is_opaque);

}  // namespace pixels
