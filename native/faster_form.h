// Measures whether a network runs faster with packed layers (weights rearranged for the processor) or with plain
// layers.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plain_form.h"

namespace sconce {

/**
 * Measures the first runs of each input size, alternately with packed and plain layers. Later runs use packed layers if
 * these were clearly faster.
 */
class FasterForm {
 public:
  using Sizes = std::vector<int64_t>;

  /** @param layers the graph with libtorch's operators, whose weights are replaced by packed layers */
  FasterForm(torch::jit::Module packed, std::shared_ptr<torch::jit::Graph> layers);

  /** Measures the time of one run of the network on this thread. */
  class Run {
   public:
    Run(FasterForm& form, Sizes sizes);
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    /** Code of the network with plain layers for this run; null if the run uses packed layers. */
    const torch::jit::Code* plain() const { return plain_ ? &plain_->code() : nullptr; }
    /**
     * Records the time of a timed run. Frees the plain weights if no input size needs them. Not called for a run that
     * throws.
     */
    void end();

   private:
    FasterForm& form_;
    Sizes sizes_;
    std::shared_ptr<const PlainForm> plain_;
    /** CPU time of the thread in seconds at the start of the run; none if the run is not timed. */
    std::optional<double> begin_;
  };

 private:
  struct Trial {
    Trial();
    bool is_timed() const;
    bool is_decided() const;
    bool is_plain() const;

    int begun = 0;
    /** CPU seconds of the shortest run with packed layers, and with plain layers. */
    double packed;
    double plain;
  };

  torch::jit::Module packed_;
  std::shared_ptr<torch::jit::Graph> layers_;
  /** Guards the trials: sessions that share the weights run in parallel. */
  std::mutex mutex_;
  std::map<Sizes, Trial> trials_;
  /** Null while no input size needs plain layers. */
  std::shared_ptr<const PlainForm> plain_;
};

/** Whether `packed` takes clearly more CPU time than `plain`. */
bool is_slower(const std::function<void()>& packed, const std::function<void()>& plain);

}  // namespace sconce
