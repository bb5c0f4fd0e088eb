// A network as it was before its layers were packed.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <optional>

namespace sconce {

/** A network with plain weights, which are unpacked from its packed layers. */
class PlainForm {
 public:
  /**
   * @param packed the module with the packed layers
   * @param layers the graph before packing, in which packed layers stand in the place of the weights
   */
  PlainForm(const torch::jit::Module& packed, torch::jit::Graph& layers);
  ~PlainForm();
  PlainForm(const PlainForm&) = delete;
  PlainForm& operator=(const PlainForm&) = delete;

  const torch::jit::Code& code() const { return *code_; }

  /** Whether a plain weight of this size may be kept beside the packed one. Larger layers are packed only. */
  static bool can_keep(size_t bytes);

 private:
  PlainForm() = default;
  bool reserve(size_t bytes);

  size_t bytes_ = 0;
  std::optional<torch::jit::Code> code_;
};

}  // namespace sconce
