// Host memory that CUDA devices read and write by themselves, while the thread that asked for the copy goes on.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace sconce {

/**
 * Of libtorch's pinned allocator, which gives out again what is freed, and not before the copies that it was used in have
 * ended. For every device alike; throws what libtorch throws when there is none left.
 */
c10::DataPtr pinned_memory(size_t bytes);

}  // namespace sconce
