// Folds batch norms into the layer before them.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sconce {

/**
 * Folds batch norms into the convolution or linear layer before them, in float64. Constants and ranks must prove that
 * the batch norm is not training, and that it scales dimension 1 of the layer's outputs. Layers of bfloat16 and float16
 * are not changed, because layer and batch norm each round there.
 * @param input_ranks ranks of the graph's inputs, in order; none for an unknown rank
 */
void fold_batch_norms(const std::shared_ptr<torch::jit::Graph>& graph, const std::vector<std::optional<int64_t>>& input_ranks);

}  // namespace sconce
