// Decides when unused batch memory should be freed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace sconce {

/** Says when to free unused memory: after a period whose largest batch is less than half of the largest before. */
class BatchNeed {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BatchNeed(std::chrono::milliseconds period) : period_(period) {}

  void ran(size_t bytes) { latest_ = std::max(latest_, bytes); }

  /** Ends the period if its time is over. Returns true if unused memory should be freed. */
  bool fell(Clock::time_point now) {
    if (now < ends_) return false;
    ends_ = now + period_;
    const size_t latest = std::exchange(latest_, 0);
    const bool is_less = 2 * latest < kept_;
    kept_ = is_less ? latest : std::max(kept_, latest);
    return is_less;
  }

  /** Whether a later `fell` can return true. Without batches there is no memory to free. */
  bool may_fall() const { return kept_ > 0 || latest_ > 0; }

  Clock::time_point ends() const { return ends_; }

 private:
  std::chrono::milliseconds period_;
  Clock::time_point ends_;
  size_t latest_ = 0;  // largest batch of this period, in bytes
  size_t kept_ = 0;    // largest batch that memory is kept for, in bytes
};

}  // namespace sconce
