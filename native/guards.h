// Guards of exported programs: the sizes of inputs for which a traced graph holds.
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

/** The guards of one program, in the text that src/native/program-guards.ts writes. May be used from several threads at once. */
class Guards {
 public:
  /** `declared` are the names of the tensors that will be given, in order; empty where they come in the order of the program. */
  Guards(const GuardText& text, const std::vector<std::string>& declared);

  /**
   * How many rows the program takes for inputs of these sizes: as many as they have, or some more, for programs that refuse this number of rows.
   * Throws `run_failed`, with the guard that fails and the sizes, where no number of rows helps.
   */
  int64_t rows_for(const std::vector<at::Tensor>& inputs);

  /** Throws `run_failed` for inputs that the program does not take as they are. */
  void require(const std::vector<at::Tensor>& inputs) const;

  std::optional<int64_t> most_rows() const { return most_rows_; }

 private:
  std::optional<std::string> failure(const std::vector<at::Tensor>& inputs, std::optional<int64_t> rows) const;
  std::string sizes_text(const std::vector<at::Tensor>& inputs) const;

  torch::jit::Module module_;
  std::optional<int64_t> most_rows_;
  std::vector<std::string> names_;
  /** places_[i] is the input that the function's argument i is given. */
  std::vector<size_t> places_;
  std::mutex mutex_;
  /** Rows to run with, by the dtypes and sizes of all inputs. */
  std::map<std::vector<int64_t>, int64_t> known_;
};

/** `weights` behind the guards of the program that they were made of. */
std::shared_ptr<Weights> guarded(std::shared_ptr<Weights> weights, const WeightsOptions& options);

}  // namespace sconce
