// Packs weights of layers for the processor once, when a module is loaded.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>

namespace sconce {

struct PackedLayers {
  size_t count = 0;
  /** The graph before packing, for `PlainForm`: packed layers stand in place of the weights, whose memory is freed. */
  std::shared_ptr<torch::jit::Graph> plain;
};

/**
 * Packs the large linear layers and the 2D convolutions on the CPU in `forward` of a frozen module. libtorch passes
 * linear layers to MKL, which repacks the weights for each batch and avoids the widest instructions on other vendors'
 * processors. Convolutions go to oneDNN, which repacks weights and images for each layer and batch. oneDNN accepts
 * weights packed in advance for both, and keeps images in its own layout between layers. Nodes known to accept that
 * layout (layout_keeper.cc) pass it on; all others get the usual layout. Results are the same except for the order of
 * additions.
 */
PackedLayers pack_layers(torch::jit::Module& frozen);

}  // namespace sconce
