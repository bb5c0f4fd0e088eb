#include "package_needs.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "error.h"
#include "processor.h"

namespace sconce {
namespace {

using Features = std::set<std::string>;

/** GCC flags of the vector instruction sets that torch/_inductor/cpu_vec_isa.py names. */
const std::map<std::string, Features, std::less<>> kVectorIsas = {
    {"AVX2", {"avx2", "fma", "f16c"}},
    {"AVX512", {"avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"}},
    {"AVX512_VNNI", {"avx512vnni"}},
    {"AMX_TILE", {"amx-tile", "amx-bf16", "amx-int8"}},
};

/** Processor features of GCC's x86-64 -march levels. */
const std::map<std::string, Features, std::less<>> kLevels = {
    {"x86-64-v2", {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}},
    {"x86-64-v3",
     {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}},
    {"x86-64-v4",
     {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe",
      "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
};

void add(Features& features, const std::map<std::string, Features, std::less<>>& known, std::string_view name) {
  const auto found = known.find(name);
  if (found != known.end()) features.insert(found->second.begin(), found->second.end());
}

/**
 * Reads processor features from compiler flags such as "GNU C++20 12.2.0 -march=x86-64-v3 -mavx2 -O3". Skips features
 * that cannot be checked, and AMX, which compilers use only on request.
 */
void add_flags(Features& features, std::string_view producer) {
  std::istringstream words{std::string(producer)};
  constexpr std::string_view march = "-march=";
  for (std::string word; words >> word;) {
    const std::string_view flag(word);
    if (flag.substr(0, march.size()) == march) add(features, kLevels, flag.substr(march.size()));
    if (flag.substr(0, 2) != "-m" || flag.substr(0, 5) == "-mamx") continue;
    if (is_known_feature(flag.substr(2))) features.emplace(flag.substr(2));
  }
}

/**
 * Reads the compiler flags that GCC records in a library for each compiled file. Reads the library in pieces, because
 * it may contain all weights.
 */
void add_producers(Features& features, std::ifstream& file, size_t size) {
  constexpr size_t piece = 1 << 20, longest = 1 << 13;
  constexpr std::string_view marker = "GNU C";
  std::string text;
  while (size > 0) {
    const size_t kept = text.size(), more = std::min(piece, size);
    text.resize(kept + more);
    if (!file.read(text.data() + kept, static_cast<std::streamsize>(more))) return;
    size -= more;
    size_t at = text.find(marker);
    for (; at != std::string::npos; at = text.find(marker, at + 1)) {
      const size_t end = text.find('\0', at);
      // The rest of these compiler flags may be in the next piece of the file.
      if (end == std::string::npos && size > 0 && text.size() - at < longest) break;
      add_flags(features, std::string_view(text).substr(at, std::min(end, at + longest) - at));
    }
    text.erase(0, std::min(at, text.size() - std::min(text.size(), marker.size())));
  }
}

/**
 * Names of features for messages, such as "AVX2 and FMA". A family of features that is missing has one name, such as
 * AVX512.
 */
std::string names_of(Features missing) {
  std::vector<std::string> names;
  const auto take_family = [&](const char* first, const char* prefix, const char* name) {
    if (missing.count(first) == 0) return;
    for (auto each = missing.begin(); each != missing.end();) {
      each = each->rfind(prefix, 0) == 0 ? missing.erase(each) : std::next(each);
    }
    names.emplace_back(name);
  };
  take_family("amx-tile", "amx-", "AMX");
  take_family("avx512f", "avx512", "AVX512");
  for (std::string name : missing) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    names.push_back(name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

constexpr const char* kWaysOut = ": compile it on a processor like this one, or serve weights that are not compiled";

}  // namespace

PackageNeeds needs_of_package(const std::string& path) {
  PackageNeeds needs;
  const auto metadata = torch::inductor::AOTIModelPackageLoader::load_metadata_from_package(path, "model");
  if (const auto found = metadata.find("AOTI_MACHINE"); found != metadata.end()) {
    // Packages from Windows and macOS name the same architectures differently.
    const std::string& name = found->second;
    needs.machine = name == "AMD64" ? "x86_64" : name == "arm64" ? "aarch64" : name;
  }
  const auto device = metadata.find("AOTI_DEVICE_KEY");
  // A package for a GPU has no vector code: only plain C++ that calls the kernels.
  const bool is_for_cpu = device == metadata.end() || device->second == "cpu";
  if (const auto found = metadata.find("AOTI_CPU_ISA"); is_for_cpu && found != metadata.end()) {
    std::istringstream isas(found->second);
    for (std::string isa; isas >> isa;) add(needs.features, kVectorIsas, isa);
  }
  caffe2::serialize::PyTorchStreamReader reader(path);
  std::ifstream file(path, std::ios::binary);
  for (const auto& name : reader.getAllRecords()) {
    if (!name.ends_with(".so")) continue;
    file.seekg(static_cast<std::streamoff>(reader.getRecordOffset(name)));
    add_producers(needs.features, file, reader.getRecordSize(name));
  }
  return needs;
}

void require_processor_for(const PackageNeeds& needs) {
  const std::string here = machine_name();
  if (!needs.machine.empty() && !here.empty() && needs.machine != here) {
    throw CodedError("weights_invalid", "the package was compiled for " + needs.machine + ", this machine is " + here +
                                            kWaysOut);
  }
  const auto missing = missing_features(needs.features);
  if (missing.empty()) return;
  throw CodedError("weights_invalid", "the package was compiled for a processor with " + names_of(missing) +
                                          ", which this one (" + processor_name() + ") lacks" + kWaysOut);
}

}  // namespace sconce
