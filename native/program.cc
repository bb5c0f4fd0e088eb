#include "program.h"

#include <ATen/Functions.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>

#include <unordered_map>
#include <utility>

#include "exact_operator.h"

namespace sconce {
namespace {

struct Record {
  c10::Storage read;
  /** The bytes on the device. */
  at::Tensor there;
};

/**
 * Resolves names in generated TorchScript: `_op0`, … are the program's operators, `_ops_aten` is torch.ops.aten,
 * `_annotate` is torch.jit.annotate.
 */
class ProgramNames final : public torch::jit::Resolver {
 public:
  explicit ProgramNames(std::vector<std::string> operators) : operators_(std::move(operators)) {}

  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name, torch::jit::GraphFunction&,
                                                         const torch::jit::SourceRange&) override {
    static const std::string space = "_ops_", one = "_op";
    if (name == "_annotate") return torch::jit::SpecialFormValue::create(c10::prim::annotate);
    if (name.rfind(space, 0) == 0) return std::make_shared<torch::jit::BuiltinModule>(name.substr(space.size()));
    if (name.rfind(one, 0) == 0) return exact_operator(operators_.at(std::stoul(name.substr(one.size()))));
    return nullptr;
  }

 private:
  std::vector<std::string> operators_;
};

}  // namespace

torch::jit::Module load_program(const std::string& path, const Program& program, c10::Device device) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  torch::jit::Module module("Program");
  // Weights may share a record, so each record is read, and copied to the device, once.
  std::unordered_map<std::string, Record> records;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const auto& weight = program.weights[i];
    auto found = records.find(weight.record);
    if (found == records.end()) {
      auto [bytes, size] = reader.getRecord(weight.record);
      const c10::Storage read(c10::Storage::use_byte_size_t(), size, std::move(bytes));
      const auto whole = at::empty({0}, at::dtype(at::kByte)).set_(read, 0, {static_cast<int64_t>(size)});
      found = records.emplace(weight.record, Record{read, whole.to(device)}).first;
    }
    const auto& [read, there] = found->second;
    const auto type = static_cast<c10::ScalarType>(weight.dtype);
    auto tensor = at::empty({0}, at::dtype(type)).set_(read, weight.offset, weight.sizes, weight.strides);
    if (!device.is_cpu()) {
      tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(there.storage()), there.key_set(), c10::scalarTypeToTypeMeta(type));
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(weight.sizes, weight.strides, weight.offset);
    }
    module.register_buffer("w" + std::to_string(i), std::move(tensor));
  }
  module.define(program.source, std::make_shared<ProgramNames>(program.operators));
  return module;
}

}  // namespace sconce
