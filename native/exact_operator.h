// Calls operators of exported programs from TorchScript.
#pragma once

#include <torch/csrc/jit/frontend/sugared_value.h>

#include <memory>
#include <string>

namespace sconce {

/**
 * A TorchScript callable for exactly one overload of an operator, such as `aten::add.Tensor`. TorchScript alone would
 * choose an overload by the types of the arguments. A call throws torch::jit::ErrorReport if libtorch lacks the
 * operator, or if the arguments do not match its schema.
 */
std::shared_ptr<torch::jit::SugaredValue> exact_operator(std::string name);

}  // namespace sconce
