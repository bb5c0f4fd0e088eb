#include "program.h"

#include <ATen/Functions.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>

#include <unordered_map>

namespace sconce {
namespace {

/** The names that are neither arguments nor assigned: `_ops_aten` and the like for operators, `_annotate` for the type of a list. */
class ProgramNames final : public torch::jit::Resolver {
 public:
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name, torch::jit::GraphFunction&,
                                                         const torch::jit::SourceRange&) override {
    static const std::string operators = "_ops_";
    if (name == "_annotate") return torch::jit::SpecialFormValue::create(c10::prim::annotate);
    if (name.rfind(operators, 0) != 0) return nullptr;
    return std::make_shared<torch::jit::BuiltinModule>(name.substr(operators.size()));
  }
};

}  // namespace

torch::jit::Module load_program(const std::string& path, const Program& program, c10::Device device) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  torch::jit::Module module("Program");
  // Weights may be views of one record.
  std::unordered_map<std::string, c10::Storage> records;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const auto& weight = program.weights[i];
    auto found = records.find(weight.record);
    if (found == records.end()) {
      auto [bytes, size] = reader.getRecord(weight.record);
      found = records.emplace(weight.record, c10::Storage(c10::Storage::use_byte_size_t(), size, std::move(bytes))).first;
    }
    auto tensor = at::empty({0}, at::dtype(static_cast<c10::ScalarType>(weight.dtype)));
    tensor.set_(found->second, weight.offset, weight.sizes, weight.strides);
    module.register_buffer("w" + std::to_string(i), tensor.to(device));
  }
  module.define(program.source, std::make_shared<ProgramNames>());
  return module;
}

}  // namespace sconce
