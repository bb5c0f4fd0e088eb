// Processor features that an AOTInductor package needs. Its code does not check for them, so a missing feature would
// crash the process.
#pragma once

#include <set>
#include <string>

namespace sconce {

struct PackageNeeds {
  /** Architecture by Python's name, e.g. "x86_64"; empty if the package does not state it. */
  std::string machine;
  /** Features by the names of GCC's -m flags. */
  std::set<std::string> features;
};

/**
 * Reads the needs from a package's metadata, and from the compiler flags that GCC records in its libraries. Runs no
 * code of the package.
 */
PackageNeeds needs_of_package(const std::string& path);

/** Throws `weights_invalid`, with the missing features and a fix, if this machine cannot run the package. */
void require_processor_for(const PackageNeeds& needs);

}  // namespace sconce
