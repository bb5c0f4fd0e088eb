// Exported programs (.pt2 files of torch.export.save). src/engine/program/program.ts translates their graphs to
// TorchScript methods.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace sconce {

/** A weight in the archive: a strided view of a record's bytes. `dtype` is a c10::ScalarType. */
struct ProgramWeight {
  std::string record;
  int dtype = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

struct Program {
  /**
   * TorchScript source of `forward`, which reads the weights as self.w0, self.w1, … and calls the operators as _op0,
   * _op1, ….
   */
  std::string source;
  std::vector<std::string> operators;
  std::vector<ProgramWeight> weights;
};

/**
 * Loads the weights, and compiles the source. Throws libtorch's errors if the source uses unknown names, or if a weight
 * exceeds its record.
 */
torch::jit::Module load_program(const std::string& path, const Program& program, c10::Device device);

}  // namespace sconce
