// Folds batch norms into the convolution before them.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace sconce {

/**
 * Folds batch norms into the convolution before them, unless other nodes read the convolution's output. Such a
 * convolution refuses an input without a batch dimension. Skips a batch norm that may train. Skips float16 and bfloat16,
 * where folding changes the rounding.
 */
void fold_batch_norms(const std::shared_ptr<torch::jit::Graph>& graph);

}  // namespace sconce
