// Operators of exported programs in the text that src/native/program-graph.ts writes.
#pragma once

#include <torch/csrc/jit/frontend/sugared_value.h>

#include <memory>
#include <string>

namespace sconce {

/**
 * A name that calls one overload of an operator: `aten::add.Tensor`.
 *
 * TorchScript picks overloads by the types of the arguments and turns bools into ints. PyTorch runs the overload that the program names.
 * So calls that TorchScript would change go through an operator that takes the arguments as they are.
 * Calls throw torch::jit::ErrorReport where libtorch lacks the operator or its schema does not take the arguments.
 */
std::shared_ptr<torch::jit::SugaredValue> exact_operator(std::string name);

}  // namespace sconce
