// Folds batch norms into the layer before them.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sconce {

/**
 * Folds batch norms into the convolution or linear layer before them, unless other nodes read the layer's output. Skips
 * a batch norm that may train, or that may scale another dimension than the layer's channels. Skips float16 and
 * bfloat16, where folding changes the rounding.
 * @param input_ranks ranks of the graph's inputs, in order; none for an unknown rank
 */
void fold_batch_norms(const std::shared_ptr<torch::jit::Graph>& graph, const std::vector<std::optional<int64_t>>& input_ranks);

}  // namespace sconce
