// Passes over TorchScript modules and graphs, in the order of their use.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <optional>
#include <string>

namespace sconce {

/**
 * Makes the module raise for wrong arguments that libtorch does not check. A division of whole numbers by zero,
 * or of the smallest one by -1, would end the process. An LSTM whose input width differs from its weights would read
 * foreign memory. Inlines all methods.
 */
void check_arguments(torch::jit::Module& module);

struct Frozen {
  /** A module with only `forward`. */
  torch::jit::Module module;
  /** Whether a run may change attributes that the next run reads. True if the graph does not show it. */
  bool changes_attributes;
};

/**
 * Makes a module whose `forward` is the method. Calls are inlined, and weights that the method never changes are constants.
 * `torch::jit::freeze` is not used, because it changes values: for example, it merges -0.0 and 0.0.
 * @returns nothing for a graph that chooses a module at run time, or that forks
 */
std::optional<Frozen> freeze_method(const torch::jit::Module& module, const std::string& method = "forward");

/**
 * Folds batch norms into the convolution before them, unless other nodes read the convolution's output. Such a
 * convolution refuses an input without a batch dimension. Skips a batch norm that may train. Skips float16 and bfloat16,
 * where folding changes the rounding.
 */
void fold_batch_norms(const std::shared_ptr<torch::jit::Graph>& graph);

/**
 * Packs the large linear layers and 2D convolutions in `forward` of a frozen module on the CPU: rearranges their weights
 * for the processor. With plain weights, MKL and oneDNN rearrange the weights for each batch. Results differ only by the
 * order of additions.
 *
 * libtorch's `ConvertFrozenOpsToMKLDNN` changes values, so it is not used: its `torch.add` may multiply the wrong
 * operand by `alpha`, and its relu may give a number for NaN.
 * @returns the number of packed layers
 */
size_t pack_layers(torch::jit::Module& frozen);

/**
 * Lets packed convolutions in `forward` of a frozen module return oneDNN's layout. Inserts conversions to row-major
 * tensors before nodes that do not accept any layout. The graph must not contain in-place writes.
 */
void free_layout(const torch::jit::Module& frozen);

}  // namespace sconce
