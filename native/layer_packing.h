// Packs layers of a module when it is loaded: rearranges their weights for the processor.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Packs the large linear layers and 2D convolutions in `forward` of a frozen module on the CPU. With plain weights, MKL
 * and oneDNN rearrange the weights for each batch. Results differ only by the order of additions.
 *
 * libtorch's `ConvertFrozenOpsToMKLDNN` changes values, so it is not used: its `torch.add` may multiply the wrong
 * operand by `alpha`, and its relu may give a number for NaN.
 * @returns the number of packed layers
 */
size_t pack_layers(torch::jit::Module& frozen);

}  // namespace sconce
