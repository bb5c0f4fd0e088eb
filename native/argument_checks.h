// Adds checks of arguments that libtorch's operators do not make, or that libtorch would remove.
#pragma once

#include <torch/csrc/jit/api/module.h>

namespace sconce {

/**
 * Inserts checks before operators that end the process or read foreign memory if an argument is wrong. These are an
 * integer remainder by zero, and an LSTM whose input has another width than its weights. A layer or function still runs if its
 * result, or an element of its result, is not used, because it may refuse an input. Inlines the methods of the module.
 */
void check_arguments(torch::jit::Module& module);

}  // namespace sconce
