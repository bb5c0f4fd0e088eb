// Gives the layers of a module weights that were arranged for the processor once, when they are loaded.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Packs the large linear layers and the convolutions over pictures of a frozen module's `forward` that are on a CPU.
 *
 * libtorch hands a linear layer to MKL, which arranges the weights anew for each batch, and on processors of other makers than its own uses none of the
 * widest instructions. Convolutions go to oneDNN, which arranges weights and pictures anew, for each layer and each batch. oneDNN takes
 * weights that were arranged once, for both; and pictures that stay as it wants them from one layer to the next, which nodes that are
 * known to take them so (layout_keeper.cc) pass on and all others get as they always did. Sums are the same but for the order of their terms.
 *
 * @returns how many there are
 */
size_t pack_layers(torch::jit::Module& frozen);

}  // namespace sconce
