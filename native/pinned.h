// Pinned host memory, which CUDA devices access directly while the thread continues.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace sconce {

/**
 * Allocates with libtorch's pinned allocator. Freed memory is reused only after pending copies have finished. Works for
 * all devices; throws libtorch's error when memory is exhausted.
 */
c10::DataPtr pinned_memory(size_t bytes);

}  // namespace sconce
