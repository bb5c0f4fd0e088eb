// What the C++ source that an AOTInductor package carries beside its compiled code says of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sconce {

struct PackageSource {
  /** Rows of a batch that the package's check of its inputs lets through. Export gives a dynamic dimension the lower bound 2, also
   *  where it was told 1. */
  int64_t least_rows = 1;
  std::optional<int64_t> most_rows;
  /** Whether a run may write into a buffer; true where there is no source to tell by. */
  bool writes_buffers = true;
};

PackageSource source_of_package(const std::string& path);

}  // namespace sconce
