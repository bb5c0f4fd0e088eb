// Packs layers of a module when it is loaded: rearranges their weights for the processor.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>

namespace sconce {

struct PackedLayers {
  size_t count = 0;
  /**
   * A copy of the graph before packing, for `PlainForm`. Its nodes have packed layers as weight arguments, because the
   * plain weights are freed.
   */
  std::shared_ptr<torch::jit::Graph> plain;
};

/**
 * Packs the large linear layers and 2D convolutions in `forward` of a frozen module on the CPU. libtorch passes linear
 * layers to MKL, which repacks the weights for each batch, and avoids the widest instructions on processors of other
 * vendors. libtorch passes convolutions to oneDNN, which repacks weights and images for each layer and batch. oneDNN
 * accepts packed weights for both, and keeps images in its own layout between layers. Nodes that are known to accept
 * that layout (layout_keeper.cc) pass it on; all others get the usual layout. Results differ only by the order of
 * additions.
 */
PackedLayers pack_layers(torch::jit::Module& frozen);

}  // namespace sconce
