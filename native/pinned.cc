#include "pinned.h"

#include <ATen/Context.h>

#include <atomic>

namespace sconce {
namespace {

/** libtorch's function that frees a pinned block. All blocks have the same function. */
std::atomic<c10::DeleterFnPtr> free_block{nullptr};

/**
 * Frees a pinned block. libtorch's function throws after a device failure, and an exception here would end the process;
 * then the block is leaked.
 */
void free_or_leak(void* block) noexcept {
  try {
    free_block.load()(block);
  } catch (...) {
    // The batch in which the device failed has reported the error.
  }
}

}  // namespace

c10::DataPtr pinned_memory(size_t bytes) {
  auto data = at::globalContext().getPinnedMemoryAllocator(c10::DeviceType::CUDA)->allocate(bytes);
  free_block.store(data.get_deleter());
  void* const memory = data.get();
  return {memory, data.release_context(), free_or_leak, data.device()};
}

}  // namespace sconce
