// Batch norms become a part of the layer before them.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sconce {

/**
 * Folds batch norms into the convolution or linear layer before them, in float64, where constants and ranks prove that the layer's outputs are
 * dimension 1, which the batch norm scales, and that it is not training. Layers of bfloat16 and float16 keep theirs: both round their results.
 *
 * @param input_ranks of the graph's inputs, in their order; none where any rank may be given
 */
void fold_batch_norms(const std::shared_ptr<torch::jit::Graph>& graph, const std::vector<std::optional<int64_t>>& input_ranks);

}  // namespace sconce
