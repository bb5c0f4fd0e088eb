// Pinned host memory: CUDA devices copy to and from it directly, while the thread continues.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace sconce {

/**
 * Allocates memory with libtorch's pinned allocator, which reuses freed memory only after pending copies have finished.
 * Works for all CUDA devices; throws libtorch's error when memory is exhausted.
 */
c10::DataPtr pinned_memory(size_t bytes);

}  // namespace sconce
