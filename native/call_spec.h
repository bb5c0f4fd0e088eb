// Reads the inputs and outputs of an AOTInductor package from the pytree specs that PyTorch writes as JSON.
#pragma once

#include <string>
#include <vector>

namespace sconce {

struct CallSpec {
  /** Number of inputs that are passed by position, before the named ones. */
  size_t positional_inputs = 0;
  std::vector<std::string> named_inputs;
  size_t outputs = 0;
  /** Names of the outputs, in order, if they are a dict or OrderedDict; otherwise empty. */
  std::vector<std::string> output_names;
};

/** Parses the two pytree specs of a package. Throws `weights_invalid` for unreadable specs, and for nested tensors. */
CallSpec parse_call_spec(const std::string& inputs, const std::string& outputs);

}  // namespace sconce
