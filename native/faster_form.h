// Measures whether a network runs faster with packed or with plain layers.
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
 * Times the first runs of each input size with packed and with plain layers in turn. Later runs use packed layers if
 * these were faster. The faster form depends on the network, the number of rows and the processor. Layers are not measured one by
 * one, because one layer decides the memory layout in which the next one gets its input.
 */
class FasterForm {
 public:
  /** Input sizes, and whatever else affects the time. */
  using Sizes = std::vector<int64_t>;

  /** @param layers the graph before packing, see `PlainForm` */
  FasterForm(torch::jit::Module packed, std::shared_ptr<torch::jit::Graph> layers);

  /** A run of the network on this thread. */
  class Run {
   public:
    Run(FasterForm& form, Sizes sizes);
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    /** The code of the network with plain layers; null for a run with packed layers. */
    const torch::jit::Code* plain() const { return plain_ ? &plain_->code() : nullptr; }
    /** Records the time. A run that throws is not recorded. */
    void end();

   private:
    FasterForm& form_;
    Sizes sizes_;
    std::shared_ptr<const PlainForm> plain_;
    /** Processor time of this thread; none if the run is not timed. */
    std::optional<double> begin_;
  };

 private:
  struct Trial {
    Trial();
    bool is_timed() const;
    bool is_decided() const;
    bool is_plain() const;

    int begun = 0;
    /** Seconds of the shortest run. */
    double packed;
    double plain;
  };

  torch::jit::Module packed_;
  std::shared_ptr<torch::jit::Graph> layers_;
  /** Sessions that share the weights run in parallel. */
  std::mutex mutex_;
  std::map<Sizes, Trial> trials_;
  /** Null while no size needs it. */
  std::shared_ptr<const PlainForm> plain_;
};

/** Whether `packed` takes clearly longer than `plain`. */
bool is_slower(const std::function<void()>& packed, const std::function<void()>& plain);

}  // namespace sconce
