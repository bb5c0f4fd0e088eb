#include "faster_form.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <limits>
#include <utility>

namespace sconce {
namespace {

/** Limit of plain weights that all networks of this process keep. */
constexpr size_t MOST_PLAIN_BYTES = 256 << 20;
constexpr size_t MOST_TRIED_SIZES = 256;

/** Runs per form, consecutive so that the weights stay in the processor's cache. */
constexpr int RUNS_OF_FORM = 6;
/** First runs are slower because of one-time work. */
constexpr int UNTIMED_RUNS = 2;
/** Smaller differences are noise. */
constexpr double CLEARLY_FASTER = 0.97;

std::atomic<size_t> plain_bytes{0};

/** The network whose layers are plain on this thread. */
thread_local FasterForm* plain_network = nullptr;

/** Unlike the clock's, this time does not grow while other processes have the processor. */
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

FasterForm::Trial::Trial() : packed(std::numeric_limits<double>::max()), plain(packed) {}

bool FasterForm::Trial::is_decided() const { return begun >= 2 * RUNS_OF_FORM; }

bool FasterForm::Trial::is_plain() const { return is_decided() ? plain < CLEARLY_FASTER * packed : begun >= RUNS_OF_FORM; }

FasterForm::Run::Run(FasterForm& form, Sizes sizes) : form_(form), sizes_(std::move(sizes)) {
  const std::lock_guard lock(form_.mutex_);
  auto& trials = form_.trials_;
  if (trials.size() == MOST_TRIED_SIZES && trials.count(sizes_) == 0) trials.clear();
  auto& trial = trials[sizes_];
  is_plain_ = trial.is_plain();
  if (is_plain_) plain_network = &form_;
  if (!trial.is_decided() && trial.begun++ % RUNS_OF_FORM >= UNTIMED_RUNS) begin_ = processor_seconds();
}

FasterForm::Run::~Run() { plain_network = nullptr; }

void FasterForm::Run::end() {
  if (!begin_) return;
  const double took = processor_seconds() - *begin_;
  const std::lock_guard lock(form_.mutex_);
  auto& trials = form_.trials_;
  const auto found = trials.find(sizes_);
  if (found == trials.end()) return;
  auto& shortest = is_plain_ ? found->second.plain : found->second.packed;
  shortest = std::min(shortest, took);
  const bool is_needed = std::any_of(trials.begin(), trials.end(), [](const auto& trial) { return trial.second.is_plain(); });
  if (!is_needed) form_.release();
}

FasterForm::~FasterForm() { release(); }

bool FasterForm::can_keep(size_t bytes) { return bytes <= MOST_PLAIN_BYTES; }

std::optional<at::Tensor> FasterForm::plain_weight(const void* layer, size_t bytes, const std::function<at::Tensor()>& make) {
  if (plain_network == nullptr) return std::nullopt;
  return plain_network->kept(layer, bytes, make);
}

std::optional<at::Tensor> FasterForm::kept(const void* layer, size_t bytes, const std::function<at::Tensor()>& make) {
  const std::lock_guard lock(mutex_);
  const auto found = plain_weights_.find(layer);
  if (found != plain_weights_.end()) return found->second;
  if (plain_bytes + bytes > MOST_PLAIN_BYTES) return std::nullopt;
  const auto weight = make();
  plain_bytes += weight.nbytes();
  plain_weights_.emplace(layer, weight);
  return weight;
}

void FasterForm::release() {
  for (const auto& [_, weight] : plain_weights_) plain_bytes -= weight.nbytes();
  plain_weights_.clear();
}

bool is_slower(const std::function<void()>& packed, const std::function<void()>& plain) {
  const auto shortest = [](const std::function<void()>& run) {
    double seconds = std::numeric_limits<double>::max();
    for (int i = 0; i < RUNS_OF_FORM - UNTIMED_RUNS; ++i) {
      const double begin = processor_seconds();
      run();
      seconds = std::min(seconds, processor_seconds() - begin);
    }
    return seconds;
  };
  return shortest(plain) < CLEARLY_FASTER * shortest(packed);
}

}  // namespace sconce
