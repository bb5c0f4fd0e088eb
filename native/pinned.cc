#include "pinned.h"

#include <ATen/Context.h>

#include <atomic>

namespace sconce {
namespace {

/** The pinned allocator's deleter, the same for all blocks. */
std::atomic<c10::DeleterFnPtr> free_block{nullptr};

/**
 * Freeing records an event for each stream that used the block. After a device failure that throws, which would end the
 * process.
 */
void free_or_leak(void* block) noexcept {
  try {
    free_block.load()(block);
  } catch (...) {
    // Ignored: the batch in which the device failed has reported the error.
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
