// Features of this machine's processor, by the names of GCC's -m flags. Compiled code uses them without a check.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace sconce {

/** Architecture as in Python's platform.machine() on Linux: "x86_64", "aarch64"; empty for any other. */
std::string machine_name();

/** The processor's own name; "processor" if it has none. */
std::string processor_name();

/** Whether compilers may use the feature unasked, and this machine can check for it. */
bool is_known_feature(std::string_view feature);

/** Known features that this processor lacks or its operating system has not enabled. */
std::set<std::string> missing_features(const std::set<std::string>& wanted);

}  // namespace sconce
