// Derives the ranks (numbers of dimensions) of tensors in a graph.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sconce {

class Ranks {
 public:
  /** @param inputs ranks of the graph's inputs, in order; none for an unknown rank */
  Ranks(torch::jit::Graph& graph, const std::vector<std::optional<int64_t>>& inputs);

  /** Rank of a value; none if the graph does not prove it. */
  std::optional<int64_t> of(const torch::jit::Value* value);

 private:
  std::optional<int64_t> find(const torch::jit::Value* value);
  std::optional<int64_t> find(const torch::jit::Node* node, size_t output);
  std::optional<int64_t> same_in_blocks(const torch::jit::Node* branch, size_t output);
  std::optional<int64_t> broadcast(const torch::jit::Node* node);
  std::optional<int64_t> first_of_list(const torch::jit::Node* node);

  bool is_known_;
  std::unordered_map<const torch::jit::Value*, std::optional<int64_t>> known_;
};

}  // namespace sconce
