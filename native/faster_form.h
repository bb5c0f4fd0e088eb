// Measures whether a layer runs faster with packed or with plain weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace sconce {

/**
 * Times the first runs of each input size with both forms, then uses the faster one. Only small inputs of small layers
 * are tried: for them the overhead of calling oneDNN can exceed its gain, depending on the processor. All others run
 * packed.
 */
class FasterForm {
 public:
  /** One run; plain if `plain_weight` is set. */
  struct Turn {
    std::optional<at::Tensor> plain_weight;
    bool is_timed = false;
    std::chrono::steady_clock::time_point begin;
  };

  ~FasterForm();

  /** @param products number of multiplications for this input */
  static bool is_tried(int64_t weights, int64_t products);
  /** @param sizes key of the trial: input sizes, and whatever else affects the time */
  Turn begin(const std::vector<int64_t>& sizes, const std::function<at::Tensor()>& plain_weight);
  void end(const std::vector<int64_t>& sizes, const Turn& turn);

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

  bool keep(const std::function<at::Tensor()>& plain_weight);
  void release();

  /** Sessions that share the weights run in parallel. */
  std::mutex mutex_;
  std::map<std::vector<int64_t>, Trial> trials_;
  std::optional<at::Tensor> plain_weight_;
};

}  // namespace sconce
