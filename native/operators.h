// Libraries with operators that weights call and libtorch does not have.
#pragma once

#include <string>

namespace sconce {

/**
 * Loads a shared library, which registers its operators with libtorch; they stay for as long as the process lives.
 * The same operators must not be loaded twice: libtorch refuses with what ends the process. Throws `weights_invalid`.
 */
void load_operators(const std::string& path);

}  // namespace sconce
