#include "weights.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "error.h"
#include "tensor.h"

namespace sconce {
namespace {

enum class Format { torchscript, aotinductor, unknown };

/** PyTorch's archives are zip files; the names of their entries show the format. */
Format format_of(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (reader.hasRecord("constants.pkl")) return Format::torchscript;
  for (const auto& name : reader.getAllRecords()) {
    if (name.find("data/aotinductor/") != std::string::npos) return Format::aotinductor;
  }
  return Format::unknown;
}

}  // namespace

std::shared_ptr<Weights> open_weights(const WeightsOptions& options) {
  const std::string name = std::filesystem::path(options.path).filename().string();
  const auto refuse = [&name](const std::string& what) -> std::shared_ptr<Weights> {
    throw CodedError("weights_invalid", "weights \"" + name + "\": " + what);
  };
  const std::string expected =
      "expected an exported program (torch.export.save), an AOTInductor package (aoti_compile_and_package) or a TorchScript file";
  std::error_code status;
  if (!std::filesystem::is_regular_file(options.path, status)) return refuse("there is no such file");
  Format format = Format::torchscript;
  try {
    if (!options.program) format = format_of(options.path);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return refuse("the file is not a zip archive that PyTorch wrote, or it is cut off; " + expected);
  }
  try {
    switch (format) {
      case Format::torchscript: return open_torchscript(options);
      case Format::aotinductor: return options.compiled ? open_aotinductor(options) : refuse("the package has no readable list of files");
      default: return refuse("the archive holds no model; " + expected);
    }
  } catch (const CodedError&) {
    throw;
  } catch (...) {
    const CodedError error = current_error("weights_invalid");
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
