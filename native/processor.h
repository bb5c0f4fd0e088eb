// What the processor of this machine can do, in the words of GCC's -m flags: compiled code asks for it and does not check.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace sconce {

/** As Python's platform.machine() says on Linux: "x86_64", "aarch64"; empty on kinds that are not told apart. */
std::string machine_name();

/** The name that the processor gives itself; "processor" where it gives none. */
std::string processor_name();

/** Features that a compiler uses unasked and that can be looked for here; others say nothing about compiled code. */
bool is_known_feature(std::string_view feature);

/** Those that this processor lacks, or its operating system did not turn on; only known ones are looked for. */
std::set<std::string> missing_features(const std::set<std::string>& wanted);

}  // namespace sconce
