// Checks the guards of exported programs: conditions on input sizes under which a traced graph is valid.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weights.h"

namespace sconce {

/** Guards of a program, from the TorchScript text that src/engine/native/program-guards.ts writes. Thread-safe. */
class Guards {
 public:
  /**
   * @param declared names of the tensors in the order in which calls pass them; empty if calls use the program's order
   */
  Guards(const GuardText& text, const std::vector<std::string>& declared);

  /**
   * The batch size to run with: the inputs' batch size, or the next size that the guards accept, at most 64 larger.
   * Throws `run_failed` if there is none.
   */
  int64_t rows_for(const std::vector<at::Tensor>& inputs);

  /** Throws `run_failed` if the guards refuse the inputs. */
  void require(const std::vector<at::Tensor>& inputs) const;

 private:
  std::optional<std::string> failure(const std::vector<at::Tensor>& inputs, std::optional<int64_t> rows) const;
  std::string sizes_text(const std::vector<at::Tensor>& inputs) const;

  torch::jit::Module module_;
  std::vector<std::string> names_;
  /** places_[i] is the index of the caller's tensor for argument i of the guard function. */
  std::vector<size_t> places_;
  std::mutex mutex_;
  /** Results of `rows_for`, by the dtypes and sizes of all inputs. */
  std::map<std::vector<int64_t>, int64_t> known_;
};

/**
 * Wraps weights so that they check the guards before each run, and pad batches that the guards refuse. Returns the
 * given weights if there are no guards.
 */
std::shared_ptr<Weights> guarded(std::shared_ptr<Weights> weights, const WeightsOptions& options);

}  // namespace sconce
