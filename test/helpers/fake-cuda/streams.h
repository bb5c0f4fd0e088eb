// Streams and events as a GPU has them, of threads: work begins late and in order, and nobody waits for it who does not ask.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace fake {

/** Long enough that whoever does not wait for work sees what was there before; a copy takes longer than what may follow it. */
constexpr std::chrono::milliseconds kComputeTime{5};
constexpr std::chrono::milliseconds kCopyTime{15};

/** Number of copies and operators in progress, and its maximum. */
inline std::atomic<int> at_work{0};
inline std::atomic<int> most_at_work{0};

/** Counts the one in whose scope it is. */
class AtWork {
 public:
  AtWork() {
    const int now = ++at_work;
    for (int most = most_at_work; most < now && !most_at_work.compare_exchange_weak(most, now);) {
    }
  }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  ~AtWork() { --at_work; }
};

/** The work of a stream, done in order on a thread. */
class Queue {
 public:
  Queue() {
    std::thread([this] { work(); }).detach();
  }

  void add(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++added_;
    }
    changed_.notify_all();
  }

  uint64_t added() {
    const std::lock_guard lock(mutex_);
    return added_;
  }

  bool has_done(uint64_t count) {
    const std::lock_guard lock(mutex_);
    return done_ >= count;
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, all = added_] { return done_ >= all; });
  }

  /** Work that fails is told of where an event is waited for that was recorded after it. */
  bool has_failed = false;  // touched by this queue's tasks only

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  uint64_t added_ = 0;
  uint64_t done_ = 0;
};

/** The queue of a stream; made at its first use and never taken away, as threads may outlive whatever is taken down at exit. */
inline Queue& queue_of(c10::Stream stream) {
  static std::mutex& mutex = *std::make_unique<std::mutex>().release();
  static auto& queues = *std::make_unique<std::map<uint64_t, std::unique_ptr<Queue>>>().release();
  const std::lock_guard lock(mutex);
  auto& queue = queues[stream.hash()];
  if (!queue) queue = std::make_unique<Queue>();
  return *queue;
}

/** May be recorded again: who waits waits for what was recorded when it asked. */
class Event {
 public:
  void record(Queue& queue) {
    const uint64_t version = recorded();
    queue.add([this, version, &queue] {
      const std::lock_guard lock(mutex_);
      reached_ = version;
      failed_ = std::exchange(queue.has_failed, false);
      changed_.notify_all();
    });
  }

  void block(Queue& queue) {
    queue.add([this, version = version_] { wait_for(version); });
  }

  bool query() {
    const std::lock_guard lock(mutex_);
    return reached_ >= version_;
  }

  void synchronize() {
    wait_for(version_);
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!failed_, "CUDA error: an illegal memory access was encountered\n",
                "CUDA kernel errors might be asynchronously reported at some other API call");
  }

 private:
  uint64_t recorded() {
    const std::lock_guard lock(mutex_);
    return ++version_;
  }

  void wait_for(uint64_t version) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_ >= version; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t version_ = 0;
  uint64_t reached_ = 0;
  bool failed_ = false;
};

}  // namespace fake
