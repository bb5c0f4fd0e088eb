// Operators of exported programs, for the TorchScript text that src/engine/native/program-graph.ts writes.
#pragma once

#include <torch/csrc/jit/frontend/sugared_value.h>

#include <memory>
#include <string>

namespace sconce {

/**
 * A callable for one overload of an operator, such as `aten::add.Tensor`. TorchScript picks overloads by argument types
 * and turns bools into ints, while PyTorch runs exactly the overload that the program names. So calls that TorchScript
 * would change use an operator that takes the arguments unchanged. A call throws torch::jit::ErrorReport if libtorch
 * lacks the operator, or if the arguments do not match its schema.
 */
std::shared_ptr<torch::jit::SugaredValue> exact_operator(std::string name);

}  // namespace sconce
