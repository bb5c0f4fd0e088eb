#include "faster_form.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace sconce {
namespace {

/** Larger layers are limited by memory bandwidth in both forms. */
constexpr int64_t MOST_WEIGHTS = 1 << 20;
/** For longer runs (above about 0.5 ms) the overhead of calling oneDNN does not matter. */
constexpr int64_t MOST_PRODUCTS = 1 << 24;
/** Limit of plain weights kept by all layers of this process. */
constexpr int64_t MOST_PLAIN_BYTES = 32 << 20;
constexpr size_t MOST_TRIED_SIZES = 256;

/** Runs per form, consecutive so that the weights stay in the processor's cache. */
constexpr int RUNS_OF_FORM = 6;
/** First runs are slower because of one-time work. */
constexpr int UNTIMED_RUNS = 2;
/** Smaller differences are noise. */
constexpr double CLEARLY_FASTER = 0.95;

std::atomic<int64_t> plain_bytes{0};

}  // namespace

FasterForm::Trial::Trial() : packed(std::numeric_limits<double>::max()), plain(packed) {}

bool FasterForm::Trial::is_decided() const { return begun >= 2 * RUNS_OF_FORM; }

bool FasterForm::Trial::is_plain() const { return is_decided() ? plain < CLEARLY_FASTER * packed : begun >= RUNS_OF_FORM; }

FasterForm::~FasterForm() { release(); }

bool FasterForm::is_tried(int64_t weights, int64_t products) { return weights <= MOST_WEIGHTS && products <= MOST_PRODUCTS; }

FasterForm::Turn FasterForm::begin(const std::vector<int64_t>& sizes, const std::function<at::Tensor()>& plain_weight) {
  const std::lock_guard lock(mutex_);
  if (trials_.size() == MOST_TRIED_SIZES && trials_.count(sizes) == 0) trials_.clear();
  auto& trial = trials_[sizes];
  const bool is_timed = !trial.is_decided() && trial.begun % RUNS_OF_FORM >= UNTIMED_RUNS;
  const bool is_plain = trial.is_plain();
  if (!trial.is_decided()) ++trial.begun;
  Turn turn;
  if (is_plain && keep(plain_weight)) turn.plain_weight = plain_weight_;
  turn.is_timed = is_timed;
  if (is_timed) turn.begin = std::chrono::steady_clock::now();
  return turn;
}

void FasterForm::end(const std::vector<int64_t>& sizes, const Turn& turn) {
  if (!turn.is_timed) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - turn.begin;
  const std::lock_guard lock(mutex_);
  const auto found = trials_.find(sizes);
  if (found == trials_.end()) return;
  auto& shortest = turn.plain_weight ? found->second.plain : found->second.packed;
  shortest = std::min(shortest, took.count());
  const bool is_needed = std::any_of(trials_.begin(), trials_.end(),
                                     [](const auto& trial) { return !trial.second.is_decided() || trial.second.is_plain(); });
  if (!is_needed) release();
}

/** Keeps a plain copy of the weight; false when the limit is reached. */
bool FasterForm::keep(const std::function<at::Tensor()>& plain_weight) {
  if (plain_weight_) return true;
  if (plain_bytes >= MOST_PLAIN_BYTES) return false;
  plain_weight_ = plain_weight();
  plain_bytes += static_cast<int64_t>(plain_weight_->nbytes());
  return true;
}

void FasterForm::release() {
  if (!plain_weight_) return;
  plain_bytes -= static_cast<int64_t>(plain_weight_->nbytes());
  plain_weight_.reset();
}

}  // namespace sconce
