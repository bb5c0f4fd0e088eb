// Exported programs (.pt2 of torch.export.save): src/native/program.ts writes their graphs as a method.
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

/** A tensor in the archive: the bytes of a record, read as `dtype`, a c10::ScalarType. */
struct ProgramWeight {
  std::string record;
  int dtype = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

struct Program {
  /** `forward`, which reads the weights as self.w0 and on and calls the operators as _op0 and on. */
  std::string source;
  /** `aten::add.Tensor` */
  std::vector<std::string> operators;
  std::vector<ProgramWeight> weights;
};

/** Which sizes of inputs a program takes. */
struct GuardText {
  /** `guards(self, ...) -> str`: the message of a guard that fails, or an empty text. */
  std::string source;
  std::vector<std::string> inputs;
  /** Nothing where the program sets no limit. */
  std::optional<int64_t> most_rows;
};

/** The names in such texts that are neither arguments nor assigned. */
std::shared_ptr<torch::jit::Resolver> program_names(std::vector<std::string> operators);

/** Throws whatever libtorch throws where the method calls what it does not know, or a weight does not fit its record. */
torch::jit::Module load_program(const std::string& path, const Program& program, c10::Device device);

}  // namespace sconce
