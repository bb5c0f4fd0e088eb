// What an AOTInductor package needs of a processor: its code runs without asking, and ends the process where that is missing.
#pragma once

#include <set>
#include <string>

namespace sconce {

struct PackageNeeds {
  /** As Python names it: "x86_64"; empty where the package does not say. */
  std::string machine;
  /** In the words of GCC's -m flags. */
  std::set<std::string> features;
};

/**
 * Two sources, of which each knows what the other does not. The metadata names the vector instructions that the code was
 * written for. But the compiler was also told -march=native, and so may have used whatever that processor had: GCC notes all of it in
 * the debug information that packages have by default. Nothing of the package is run.
 */
PackageNeeds needs_of_package(const std::string& path);

/** Throws `weights_invalid`, with what is missing and the ways out, where this machine cannot run the package. */
void require_processor_for(const PackageNeeds& needs);

}  // namespace sconce
