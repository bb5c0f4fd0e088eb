// Decides when unused batch memory should be freed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace sconce {

/**
 * Batch memory is kept for later batches. It should be freed after a whole period in which no batch needed half of the
 * largest need since memory was last freed.
 */
class BatchNeed {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BatchNeed(std::chrono::milliseconds period) : period_(period) {}

  /** Records a batch of `bytes` bytes. */
  void ran(size_t bytes) { latest_ = std::max(latest_, bytes); }

  /**
   * Call this when a period may have ended. Returns true once each time the need has fallen, so that memory should be
   * freed.
   */
  bool fell(Clock::time_point now) {
    if (now < ends_) return false;
    ends_ = now + period_;
    const size_t latest = std::exchange(latest_, 0);
    const bool is_less = 2 * latest < kept_;
    kept_ = is_less ? latest : std::max(kept_, latest);
    return is_less;
  }

  /** Whether memory may be kept at all. */
  bool is_there() const { return kept_ > 0 || latest_ > 0; }

  /** End of the current period. */
  Clock::time_point ends() const { return ends_; }

 private:
  std::chrono::milliseconds period_;
  Clock::time_point ends_;
  size_t latest_ = 0;  // most bytes of a batch in this period
  size_t kept_ = 0;    // most bytes of a batch in earlier periods
};

}  // namespace sconce
