// Exported programs (.pt2 of torch.export.save). src/engine/native/program.ts translates their graphs to a TorchScript method.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <memory>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
struct Resolver;
}

namespace sconce {

/** A tensor in the archive: a view of a record's bytes as `dtype`, a c10::ScalarType. */
struct ProgramWeight {
  std::string record;
  int dtype = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

struct Program {
  /** `forward`, which reads the weights as self.w0, self.w1, … and calls the operators as _op0, _op1, …. */
  std::string source;
  /** For example `aten::add.Tensor`. */
  std::vector<std::string> operators;
  std::vector<ProgramWeight> weights;
};

/** Guards: the input sizes that a program accepts. */
struct GuardText {
  /** `guards(self, ...) -> str`: returns the message of a failed guard, or "". */
  std::string source;
  std::vector<std::string> inputs;
  /** None if the program sets no limit. */
  std::optional<int64_t> most_rows;
};

/** Resolver of the special names in such texts. */
std::shared_ptr<torch::jit::Resolver> program_names(std::vector<std::string> operators);

/** Throws libtorch's errors, if the method uses unknown names or a weight exceeds its record. */
torch::jit::Module load_program(const std::string& path, const Program& program, c10::Device device);

}  // namespace sconce
