// Whether a layer runs faster with packed or with plain weights.
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
 * Decides for each size of a layer's input by timing its first runs, some with either form. Small inputs of small layers are
 * tried: to call oneDNN takes longer there than what it saves, which differs between processors. All others run packed.
 */
class FasterForm {
 public:
  /** One run: with plain weights if there are some. */
  struct Turn {
    std::optional<at::Tensor> plain_weight;
    bool is_timed = false;
    std::chrono::steady_clock::time_point begin;
  };

  ~FasterForm();

  /** @param products how many numbers the layer multiplies for this input */
  static bool is_tried(int64_t weights, int64_t products);
  /** @param sizes of the input, and whatever else matters for how long a run takes */
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

  /** Sessions that share the weights run side by side. */
  std::mutex mutex_;
  std::map<std::vector<int64_t>, Trial> trials_;
  std::optional<at::Tensor> plain_weight_;
};

}  // namespace sconce
