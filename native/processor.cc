#include "processor.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sconce {
namespace {

#if defined(__x86_64__)

enum class Register { eax, ebx, ecx, edx };

/** Register states, as bits of XCR0. The operating system must save them before a feature may be used. */
enum class State : uint64_t { none = 0, avx = 0x6, avx512 = 0xe6, amx = 0x60006 };

struct Feature {
  const char* name;
  uint32_t leaf;
  uint32_t subleaf;
  Register part;
  int bit;
  State state;
};

/**
 * Position of each feature in the results of CPUID. From Intel's Software Developer's Manual, volume 2; `lzcnt` from
 * AMD's manual.
 */
constexpr Feature kFeatures[] = {
    {"sse3", 1, 0, Register::ecx, 0, State::none},
    {"ssse3", 1, 0, Register::ecx, 9, State::none},
    {"fma", 1, 0, Register::ecx, 12, State::avx},
    {"sse4.1", 1, 0, Register::ecx, 19, State::none},
    {"sse4.2", 1, 0, Register::ecx, 20, State::none},
    {"movbe", 1, 0, Register::ecx, 22, State::none},
    {"popcnt", 1, 0, Register::ecx, 23, State::none},
    {"avx", 1, 0, Register::ecx, 28, State::avx},
    {"f16c", 1, 0, Register::ecx, 29, State::avx},
    {"bmi", 7, 0, Register::ebx, 3, State::none},
    {"avx2", 7, 0, Register::ebx, 5, State::avx},
    {"bmi2", 7, 0, Register::ebx, 8, State::none},
    {"avx512f", 7, 0, Register::ebx, 16, State::avx512},
    {"avx512dq", 7, 0, Register::ebx, 17, State::avx512},
    {"avx512ifma", 7, 0, Register::ebx, 21, State::avx512},
    {"avx512er", 7, 0, Register::ebx, 27, State::avx512},
    {"avx512cd", 7, 0, Register::ebx, 28, State::avx512},
    {"avx512bw", 7, 0, Register::ebx, 30, State::avx512},
    {"avx512vl", 7, 0, Register::ebx, 31, State::avx512},
    {"avx512vbmi", 7, 0, Register::ecx, 1, State::avx512},
    {"avx512vbmi2", 7, 0, Register::ecx, 6, State::avx512},
    {"gfni", 7, 0, Register::ecx, 8, State::none},
    {"avx512vnni", 7, 0, Register::ecx, 11, State::avx512},
    {"avx512bitalg", 7, 0, Register::ecx, 12, State::avx512},
    {"avx512vpopcntdq", 7, 0, Register::ecx, 14, State::avx512},
    {"avx5124vnniw", 7, 0, Register::edx, 2, State::avx512},
    {"avx5124fmaps", 7, 0, Register::edx, 3, State::avx512},
    {"amx-bf16", 7, 0, Register::edx, 22, State::amx},
    {"avx512fp16", 7, 0, Register::edx, 23, State::avx512},
    {"amx-tile", 7, 0, Register::edx, 24, State::amx},
    {"amx-int8", 7, 0, Register::edx, 25, State::amx},
    {"avxvnni", 7, 1, Register::eax, 4, State::avx},
    {"avx512bf16", 7, 1, Register::eax, 5, State::avx512},
    {"amx-fp16", 7, 1, Register::eax, 21, State::amx},
    {"avxifma", 7, 1, Register::eax, 23, State::avx},
    {"avxvnniint8", 7, 1, Register::edx, 4, State::avx},
    {"avxneconvert", 7, 1, Register::edx, 5, State::avx},
    {"avxvnniint16", 7, 1, Register::edx, 10, State::avx},
    {"lzcnt", 0x80000001, 0, Register::ecx, 5, State::none},
};

/** Registers eax, ebx, ecx and edx after CPUID; zeros if the processor does not know the leaf. */
std::array<uint32_t, 4> cpuid(uint32_t leaf, uint32_t subleaf) {
  std::array<uint32_t, 4> parts{};
  __get_cpuid_count(leaf, subleaf, &parts[0], &parts[1], &parts[2], &parts[3]);
  return parts;
}

/** Register states that the operating system saves; 0 if it does not use XSAVE. */
uint64_t saved_state() {
  if ((cpuid(1, 0)[2] & (1u << 27)) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

const Feature* find_feature(std::string_view name) {
  const auto found = std::find_if(std::begin(kFeatures), std::end(kFeatures), [&](const Feature& feature) {
    return name == feature.name;
  });
  return found == std::end(kFeatures) ? nullptr : found;
}

bool is_there(const Feature& feature) {
  const uint64_t wanted = static_cast<uint64_t>(feature.state);
  const uint32_t part = cpuid(feature.leaf, feature.subleaf)[static_cast<size_t>(feature.part)];
  return ((part >> feature.bit) & 1) != 0 && (saved_state() & wanted) == wanted;
}

#endif

}  // namespace

std::string machine_name() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "";
#endif
}

std::string processor_name() {
#if defined(__x86_64__)
  if (cpuid(0x80000000, 0)[0] >= 0x80000004) {
    std::string name;
    for (uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
      const auto parts = cpuid(leaf, 0);
      name.append(reinterpret_cast<const char*>(parts.data()), sizeof(parts));
    }
    name.resize(std::strlen(name.c_str()));
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) return name;
  }
#endif
  return "processor";
}

#if defined(__x86_64__)

bool is_known_feature(std::string_view feature) { return find_feature(feature) != nullptr; }

std::set<std::string> missing_features(const std::set<std::string>& wanted) {
  std::set<std::string> missing;
  for (const auto& name : wanted) {
    const Feature* feature = find_feature(name);
    if (feature != nullptr && !is_there(*feature)) missing.insert(name);
  }
  return missing;
}

#else

// Packages for other architectures do not state features.
bool is_known_feature(std::string_view) { return false; }
std::set<std::string> missing_features(const std::set<std::string>&) { return {}; }

#endif

}  // namespace sconce
