// Inserts checks of arguments into a TorchScript module.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Makes the module raise at an integer remainder by zero, which would end the process, and at an LSTM input whose width
 * differs from the weights, which would read foreign memory. Keeps layers whose results nothing uses, because they may
 * refuse an input. Inlines all methods.
 */
void check_arguments(torch::jit::Module& module);

}  // namespace sconce
