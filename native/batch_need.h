// How much memory batches need, and when that has become less.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace sconce {

/**
 * Memory that batches have needed is kept for the next ones. This tells when it should be let go of: when for a whole
 * period no batch needed half as much as the largest since that was done the last time.
 */
class BatchNeed {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BatchNeed(std::chrono::milliseconds period) : period_(period) {}

  /** A batch had so many bytes. */
  void ran(size_t bytes) { latest_ = std::max(latest_, bytes); }

  /** To be asked when a period may have ended; true once for each time that less was needed. */
  bool fell(Clock::time_point now) {
    if (now < ends_) return false;
    ends_ = now + period_;
    const size_t latest = std::exchange(latest_, 0);
    const bool is_less = 2 * latest < kept_;
    kept_ = is_less ? latest : std::max(kept_, latest);
    return is_less;
  }

  /** Whether there is something that may be let go of. */
  bool is_there() const { return kept_ > 0 || latest_ > 0; }

  /** When to ask again. */
  Clock::time_point ends() const { return ends_; }

 private:
  std::chrono::milliseconds period_;
  Clock::time_point ends_;
  size_t latest_ = 0;  // of this period
  size_t kept_ = 0;    // of those before
};

}  // namespace sconce
