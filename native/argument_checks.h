// Inserts checks of arguments into a TorchScript module.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Makes the module raise for wrong arguments that libtorch does not check. A division of whole numbers by zero,
 * or of the smallest one by -1, would end the process. An LSTM whose input width differs from its weights would read
 * foreign memory. Inlines all methods.
 */
void check_arguments(torch::jit::Module& module);

}  // namespace sconce
