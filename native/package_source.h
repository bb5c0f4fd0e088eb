// Facts from the C++ source code inside an AOTInductor package.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sconce {

struct PackageSource {
  /**
   * Least batch size that the package's input check accepts. For a dynamic dimension, export sets the lower bound 2,
   * even if 1 was requested.
   */
  int64_t least_rows = 1;
  std::optional<int64_t> most_rows;
  /** Whether a run may write to a buffer; true if the package has no source code. */
  bool writes_buffers = true;
};

PackageSource source_of_package(const std::string& path);

}  // namespace sconce
