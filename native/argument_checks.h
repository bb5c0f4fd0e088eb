// Checks of arguments that libtorch's operators lack.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Inserts a check before each operator that would end the process or read foreign memory: a remainder of integers by zero, and an LSTM
 * whose input has another width than its weights. Inlines the methods of the module.
 */
void check_arguments(torch::jit::Module& module);

}  // namespace sconce
