// Packs layers of a module when it is loaded: rearranges their weights for the processor.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>

namespace sconce {

struct PackedLayers {
  size_t count = 0;
  /**
   * The graph with libtorch's operators, whose weights are replaced by packed layers: the plain weights are freed. Null
   * if this libtorch cannot pack layers.
   */
  std::shared_ptr<torch::jit::Graph> plain;
};

/**
 * Packs the large linear layers and 2D convolutions in `forward` of a frozen module on the CPU. With plain weights, MKL
 * and oneDNN rearrange the weights for each batch. Results differ only by the order of additions.
 */
PackedLayers pack_layers(torch::jit::Module& frozen);

}  // namespace sconce
