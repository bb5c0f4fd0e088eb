// Folds batch norms into the layer before them.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sconce {

/**
 * Folds batch norms into the preceding convolution or linear layer, in float64. Requires proof, by constants and ranks,
 * that the batch norm is not training and scales the layer's outputs in dimension 1. Layers of bfloat16 and float16 are
 * left alone: their layer and batch norm both round.
 * @param input_ranks ranks of the graph's inputs, in order; none for an unknown rank
 */
void fold_batch_norms(const std::shared_ptr<torch::jit::Graph>& graph, const std::vector<std::optional<int64_t>>& input_ranks);

}  // namespace sconce
