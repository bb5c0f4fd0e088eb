// Inputs and outputs of an AOTInductor package, from the pytree specs that PyTorch writes as JSON.
#pragma once

#include <string>
#include <vector>

namespace sconce {

struct CallSpec {
  /** Positional inputs come first, in argument order. */
  size_t positional_inputs = 0;
  std::vector<std::string> named_inputs;
  size_t outputs = 0;
  /** Keys of a dict, or fields of a NamedTuple, in order; empty for unnamed outputs. */
  std::vector<std::string> output_names;
};

/** Throws `weights_invalid` for unreadable specs, and for nested tensors. */
CallSpec parse_call_spec(const std::string& inputs, const std::string& outputs);

}  // namespace sconce
