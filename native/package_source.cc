#include "package_source.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

namespace sconce {
namespace {

/**
 * Searches the source for input checks that begin with `marker`, and returns the smallest number after `sign` in them.
 * Returns nothing without such a check.
 */
std::optional<int64_t> bound_of(const std::string& source, std::string_view marker, std::string_view sign) {
  std::optional<int64_t> bound;
  for (size_t at = source.find(marker); at != std::string::npos; at = source.find(marker, at + 1)) {
    const size_t number = source.find(sign, at + marker.size());
    if (number == std::string::npos) break;
    const int64_t value = std::atoll(source.c_str() + number + sign.size());
    bound = std::min(bound.value_or(value), value);
  }
  return bound;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/** Whether the code of a run uses a buffer in another way than `(const float*)(name.data_ptr())`, which only reads. */
bool may_write(std::string_view code, const std::string& name) {
  for (size_t at = code.find(name); at != std::string_view::npos; at = code.find(name, at + 1)) {
    const auto before = code.substr(0, at), after = code.substr(at + name.size());
    if (is_word(before.back()) || is_word(after.front())) continue;
    if (after.starts_with(" = constants_")) continue;
    const bool is_cast = before.ends_with("*)(") && after.starts_with(".data_ptr())");
    if (!is_cast || !before.substr(before.rfind('(', at - 2)).starts_with("(const ")) return true;
  }
  return false;
}

bool writes_buffers(const std::string& source) {
  const size_t run = source.find("::run_impl(");
  if (run == std::string::npos) return true;
  const std::string_view code = std::string_view(source).substr(run);
  constexpr std::string_view constant = "constants_info_[", named = "].name = \"";
  for (size_t at = source.find(constant); at != std::string::npos; at = source.find(constant, at)) {
    at = source.find(']', at);
    if (at == std::string::npos || source.compare(at, named.size(), named) != 0) continue;
    at += named.size();
    const std::string name = source.substr(at, source.find('"', at) - at);
    const size_t type = source.find("ConstantType::", at);
    const bool is_buffer = type != std::string::npos && source.compare(type + 14, 6, "Buffer") == 0;
    if (is_buffer && may_write(code, name)) return true;
  }
  return false;
}

}  // namespace

PackageSource source_of_package(const std::string& path) {
  const std::string_view suffix = ".wrapper.cpp";
  caffe2::serialize::PyTorchStreamReader reader(path);
  for (const auto& name : reader.getAllRecords()) {
    if (name.size() < suffix.size() || name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) continue;
    const auto [data, size] = reader.getRecord(name);
    const std::string source(static_cast<const char*>(data.get()), size);
    const auto least = bound_of(source, "dim value is too small at 0, ", ">= ");
    const auto most = bound_of(source, "dim value is too large at 0, ", "<= ");
    const auto only = bound_of(source, "unmatched dim value at 0, ", "expected: ");
    return {only.value_or(std::max<int64_t>(1, least.value_or(1))), only ? only : most, writes_buffers(source)};
  }
  return {};
}

}  // namespace sconce
