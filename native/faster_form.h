// Measures whether a network runs faster with packed or with plain layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace sconce {

/**
 * Times the first runs of each input size with packed and with plain layers, then uses the faster form, which
 * depends on the network, the number of rows and the processor. Layers are not measured one by one, because one
 * layer decides the memory layout in which the next one gets its input.
 */
class FasterForm {
 public:
  /** Input sizes, and whatever else affects the time. */
  using Sizes = std::vector<int64_t>;

  /** A run of the network on this thread. While this object exists, the layers use the form that it chose. */
  class Run {
   public:
    Run(FasterForm& form, Sizes sizes);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    /** Records the time. A run that throws is not recorded. */
    void end();

   private:
    FasterForm& form_;
    Sizes sizes_;
    bool is_plain_ = false;
    /** Processor time of this thread; none if the run is not timed. */
    std::optional<double> begin_;
  };

  ~FasterForm();

  /** Whether the plain weights of a layer may be kept beside the packed ones. */
  static bool can_keep(size_t bytes);
  /**
   * The plain weights of a layer in a plain run. A packed run gets none, nor does a plain one at the limit of memory.
   * @param make called once, the weights are then kept
   */
  static std::optional<at::Tensor> plain_weight(const void* layer, size_t bytes, const std::function<at::Tensor()>& make);

 private:
  struct Trial {
    Trial();
    bool is_decided() const;
    bool is_plain() const;

    int begun = 0;
    /** Seconds of the shortest run. */
    double packed;
    double plain;
  };

  std::optional<at::Tensor> kept(const void* layer, size_t bytes, const std::function<at::Tensor()>& make);
  void release();

  /** Sessions that share the weights run in parallel. */
  std::mutex mutex_;
  std::map<Sizes, Trial> trials_;
  std::map<const void*, at::Tensor> plain_weights_;
};

/** Whether `packed` takes clearly longer than `plain`. */
bool is_slower(const std::function<void()>& packed, const std::function<void()>& plain);

}  // namespace sconce
