#include "pinned.h"

#include <ATen/Context.h>

#include <atomic>

namespace sconce {
namespace {

/** The allocator's own, one for all its blocks. */
std::atomic<c10::DeleterFnPtr> free_block{nullptr};

/** It records an event for each stream that used the block, which throws once the device has failed: that ends a process. */
void free_or_leak(void* block) noexcept {
  try {
    free_block.load()(block);
  } catch (...) {
    // Nothing is told: the batch in which the device failed has its error.
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
