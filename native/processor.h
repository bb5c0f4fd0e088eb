// Features of this machine's processor, by the names of GCC's -m flags. Compiled code uses the features without a
// check.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace sconce {

/** Architecture as in Python's platform.machine() on Linux: "x86_64" or "aarch64"; empty for any other. */
std::string machine_name();

/** Name of the processor, as it reports it; "processor" if it reports none. */
std::string processor_name();

/** Whether the addon can check that the processor has this instruction set, such as AVX2. */
bool is_known_feature(std::string_view feature);

/**
 * The wanted features that this processor lacks, or that its operating system has not enabled. Unknown features are
 * skipped.
 */
std::set<std::string> missing_features(const std::set<std::string>& wanted);

}  // namespace sconce
