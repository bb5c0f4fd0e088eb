// How an AOTInductor package takes its inputs and gives its outputs: the pytree specs that PyTorch writes as JSON.
#pragma once

#include <string>
#include <vector>

namespace sconce {

struct CallSpec {
  /** Inputs without a name come first, in the order of the positional arguments. */
  size_t positional_inputs = 0;
  std::vector<std::string> named_inputs;
  size_t outputs = 0;
  /** The keys of a dict or the fields of a NamedTuple in their order; empty where outputs go by order. */
  std::vector<std::string> output_names;
};

/** Throws `weights_invalid` where the specs cannot be read or nest deeper than sconce's tensors do. */
CallSpec parse_call_spec(const std::string& inputs, const std::string& outputs);

}  // namespace sconce
