// Memory as libtorch's caching allocators give it: what is freed is given out again at once, while work that was started
// may still use it.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "streams.h"

namespace fake {

/** The most that one tensor may take. */
constexpr size_t kMaxBytes = size_t{64} << 20;

struct Block {
  void* memory;
  size_t bytes;
  /** Only work of this stream is in order with the next owner's; none for pinned memory. */
  std::optional<c10::Stream> owner;
  /** Streams beside the owner that were said to use the block, which waits for what they had to do when it was freed. */
  std::set<Queue*> users;
  std::vector<std::pair<Queue*, uint64_t>> awaited;
  bool taken = true;
};

class Arena {
 public:
  Block* take(size_t bytes, std::optional<c10::Stream> owner) {
    const std::lock_guard lock(mutex_);
    for (auto& block : blocks_) {
      if (block.taken || block.bytes != bytes || block.owner != owner) continue;
      bool idle = true;
      for (const auto& [queue, count] : block.awaited) idle = idle && queue->has_done(count);
      if (!idle) continue;
      block.awaited.clear();
      block.taken = true;
      return &block;
    }
    return &blocks_.emplace_back(Block{std::calloc(bytes, 1), bytes, owner, {}, {}});
  }

  void give(Block* block) {
    const std::lock_guard lock(mutex_);
    for (auto* queue : block->users) block->awaited.emplace_back(queue, queue->added());
    block->users.clear();
    block->taken = false;
  }

  void use(Block* block, Queue& queue) {
    const std::lock_guard lock(mutex_);
    block->users.insert(&queue);
  }

  size_t count() {
    const std::lock_guard lock(mutex_);
    return std::count_if(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.taken; });
  }

  /** The block around an address, if there is one. */
  Block* around(const void* address) {
    const std::lock_guard lock(mutex_);
    for (auto& block : blocks_) {
      const auto* begin = static_cast<const char*>(block.memory);
      if (address >= begin && address < begin + block.bytes) return &block;
    }
    return nullptr;
  }

 private:
  std::mutex mutex_;
  std::list<Block> blocks_;
};

/** Never taken down, as streams are not. */
inline Arena& device_memory() {
  static Arena& arena = *std::make_unique<Arena>().release();
  return arena;
}

inline Arena& pinned_memory() {
  static Arena& arena = *std::make_unique<Arena>().release();
  return arena;
}

}  // namespace fake
