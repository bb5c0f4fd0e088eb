// A network with packed layers in its plain form, as it was before packing.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <optional>

namespace sconce {

/** A network as it was before its layers were packed, with copies of their plain weights. */
class PlainForm {
 public:
  /**
   * @param packed the module with the packed layers
   * @param layers the graph before packing; packed layers stand for the weights (see `pack_layers`)
   */
  PlainForm(const torch::jit::Module& packed, torch::jit::Graph& layers);
  ~PlainForm();
  PlainForm(const PlainForm&) = delete;
  PlainForm& operator=(const PlainForm&) = delete;

  const torch::jit::Code& code() const { return *code_; }

  /** Whether plain weights of this size can be kept beside the packed ones. Layers beyond the limit stay packed. */
  static bool can_keep(size_t bytes);

 private:
  PlainForm() = default;
  bool reserve(size_t bytes);

  size_t bytes_ = 0;
  std::optional<torch::jit::Code> code_;
};

}  // namespace sconce
