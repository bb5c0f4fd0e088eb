#include "faster_form.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

namespace sconce {
namespace {

constexpr size_t MOST_TRIED_SIZES = 256;

/** Consecutive runs with the same kind of layers, so that their weights stay in the processor's cache. */
constexpr int RUNS_OF_BLOCK = 4;
/** Fewest runs before packed or plain layers are chosen. */
constexpr int LEAST_RUNS = 4 * RUNS_OF_BLOCK;
/** After this many runs, packed or plain layers are chosen even if their speeds are similar. */
constexpr int MOST_RUNS = 8 * RUNS_OF_BLOCK;
/**
 * One kind of layers counts as faster if it takes less than this share of the other kind's time: smaller differences
 * are noise.
 */
constexpr double CLEARLY_FASTER = 0.97;
/** The choice comes early if one kind of layers takes less than this share of the other kind's time. */
constexpr double FAR_FASTER = 0.9;
/** How often `is_slower` runs each function. */
constexpr int RUNS_OF_LAYER = 4;

/** CPU time of this thread. Unlike a clock, it does not run while other processes have the processor. */
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

FasterForm::FasterForm(torch::jit::Module packed, std::shared_ptr<torch::jit::Graph> layers)
    : packed_(std::move(packed)), layers_(std::move(layers)) {}

FasterForm::Trial::Trial() : packed(std::numeric_limits<double>::max()), plain(packed) {}

/**
 * Whether the current run is timed: not after the choice, and not the first runs after a switch between packed and
 * plain layers, which load the weights into the cache.
 */
bool FasterForm::Trial::is_timed() const {
  const int untimed = begun < 2 * RUNS_OF_BLOCK ? 2 : 1;
  return !is_decided() && begun % RUNS_OF_BLOCK >= untimed;
}

bool FasterForm::Trial::is_decided() const {
  if (begun >= MOST_RUNS) return true;
  return begun >= LEAST_RUNS && (packed < FAR_FASTER * plain || plain < FAR_FASTER * packed);
}

bool FasterForm::Trial::is_plain() const {
  return is_decided() ? packed >= CLEARLY_FASTER * plain : begun / RUNS_OF_BLOCK % 2 == 1;
}

FasterForm::Run::Run(FasterForm& form, Sizes sizes) : form_(form), sizes_(std::move(sizes)) {
  const std::lock_guard lock(form_.mutex_);
  auto& trials = form_.trials_;
  if (trials.size() == MOST_TRIED_SIZES && trials.count(sizes_) == 0) trials.clear();
  auto& trial = trials[sizes_];
  const bool is_timed = trial.is_timed();
  if (trial.is_plain()) {
    try {
      if (!form_.plain_) form_.plain_ = std::make_shared<PlainForm>(form_.packed_, *form_.layers_);
      plain_ = form_.plain_;
    } catch (const std::exception&) {
      // Without memory for plain weights, packed layers are chosen.
      trial.begun = MOST_RUNS;
      trial.plain = std::numeric_limits<double>::max();
      return;
    }
  }
  if (!trial.is_decided()) ++trial.begun;
  if (is_timed) begin_ = processor_seconds();
}

void FasterForm::Run::end() {
  if (!begin_) return;
  const double took = processor_seconds() - *begin_;
  const std::lock_guard lock(form_.mutex_);
  auto& trials = form_.trials_;
  const auto found = trials.find(sizes_);
  if (found == trials.end()) return;
  auto& shortest = plain_ ? found->second.plain : found->second.packed;
  shortest = std::min(shortest, took);
  const bool is_needed = std::any_of(trials.begin(), trials.end(), [](const auto& each) {
    const auto& trial = each.second;
    return trial.is_decided() ? trial.is_plain() : trial.begun > RUNS_OF_BLOCK;
  });
  if (!is_needed) form_.plain_ = nullptr;
}

bool is_slower(const std::function<void()>& packed, const std::function<void()>& plain) {
  const auto shortest = [](const std::function<void()>& run) {
    double seconds = std::numeric_limits<double>::max();
    for (int i = 0; i < RUNS_OF_LAYER; ++i) {
      const double begin = processor_seconds();
      run();
      seconds = std::min(seconds, processor_seconds() - begin);
    }
    return seconds;
  };
  return shortest(plain) < CLEARLY_FASTER * shortest(packed);
}

}  // namespace sconce
