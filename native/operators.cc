#include "operators.h"

#include <dlfcn.h>

#include "error.h"

namespace sconce {

void load_operators(const std::string& path) {
  // What it needs of libtorch it finds in this process.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) throw CodedError("weights_invalid", dlerror());
}

}  // namespace sconce
