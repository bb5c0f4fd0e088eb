// Exported programs (.pt2 of torch.export.save), whose graphs src/native/program.ts wrote as a method.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace sconce {

/** A tensor in the archive: the bytes of a record, read as `dtype`, a c10::ScalarType. */
struct ProgramWeight {
  std::string record;
  int dtype = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

struct Program {
  /** `forward`, which reads the weights as self.w0 and on. */
  std::string source;
  std::vector<ProgramWeight> weights;
  std::optional<int64_t> most_rows;
};

/** Throws whatever libtorch throws where the method calls what it does not know, or a weight does not fit its record. */
torch::jit::Module load_program(const std::string& path, const Program& program, c10::Device device);

}  // namespace sconce
