// A network with libtorch's operators and plain weights instead of packed layers.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <optional>

namespace sconce {

/**
 * A network with plain weights, which are unpacked from its packed layers. Layers whose plain weights exceed the memory
 * limit stay packed.
 */
class PlainForm {
 public:
  /**
   * @param packed the module with the packed layers
   * @param layers the graph with libtorch's operators, whose weights are replaced by packed layers
   */
  PlainForm(const torch::jit::Module& packed, torch::jit::Graph& layers);
  ~PlainForm();
  PlainForm(const PlainForm&) = delete;
  PlainForm& operator=(const PlainForm&) = delete;

  const torch::jit::Code& code() const { return *code_; }

  /**
   * Whether a plain weight of this size fits in the memory limit for plain weights. A larger layer is either packed or
   * plain for all runs.
   */
  static bool can_keep(size_t bytes);

 private:
  PlainForm() = default;
  bool reserve(size_t bytes);

  size_t bytes_ = 0;
  std::optional<torch::jit::Code> code_;
};

}  // namespace sconce
