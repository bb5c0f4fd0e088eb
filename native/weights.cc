#include "weights.h"

#include <algorithm>
#include <filesystem>

#include "error.h"
#include "tensor.h"

namespace sconce {

std::shared_ptr<Weights> open_weights(const WeightsOptions& options) {
  try {
    register_vision_operators();
    return options.compiled ? open_aotinductor(options) : open_torchscript(options);
  } catch (const CodedError&) {
    throw;
  } catch (...) {
    const CodedError error = current_error("weights_invalid");
    const std::string name = std::filesystem::path(options.path).filename().string();
    throw CodedError(error.code(), "weights \"" + name + "\" could not be loaded: " + error.what());
  }
}

std::vector<size_t> places_of_outputs(const std::vector<std::string>& declared, const std::vector<std::string>& given) {
  const auto refuse = [&](const std::string& name, const char* where) {
    throw CodedError("weights_invalid", "output \"" + name + "\" is " + where + ": the weights give " +
                                            names_text(given) + ", the model declares the outputs " + names_text(declared));
  };
  std::vector<size_t> places;
  for (const auto& name : declared) {
    const auto found = std::find(given.begin(), given.end(), name);
    if (found == given.end()) refuse(name, "missing");
    places.push_back(found - given.begin());
  }
  for (const auto& name : given) {
    if (std::find(declared.begin(), declared.end(), name) == declared.end()) refuse(name, "not declared");
  }
  return places;
}

void require_output_count(const std::vector<std::string>& declared, size_t given) {
  if (declared.size() == given) return;
  throw CodedError("weights_invalid", "the weights give " + std::to_string(given) +
                                          (given == 1 ? " output" : " outputs") + ", the model declares " +
                                          std::to_string(declared.size()) + " " + names_text(declared));
}

}  // namespace sconce
