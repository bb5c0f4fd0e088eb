#include "held_tensor.h"

#include <c10/core/InferenceMode.h>

#include <memory>

#include "device.h"
#include "error.h"
#include "values.h"

namespace sconce {
namespace {

/** Type tag of this addon's tensors, so that externals of other addons are refused. */
constexpr napi_type_tag kTensorTag{0x5c0ce7e250500001, 0xa1b6c3f40d2e8897};

}  // namespace

HeldTensor::HeldTensor(at::Tensor tensor, c10::Stream stream) : tensor_(std::move(tensor)), stream_(stream) {}

const at::Tensor& HeldTensor::tensor() const {
  if (!tensor_.defined()) throw CodedError("tensor_invalid", "the tensor was freed");
  return tensor_;
}

napi_value HeldTensor::take(napi_env env, bool is_output) {
  const c10::InferenceMode inference;
  at::Tensor host;
  {
    const DeviceScope scope(stream_);
    host = tensor().to(c10::kCPU);
  }
  if (!is_output) {
    const napi_value elements = elements_to_js(env, host);
    free(env);
    return elements;
  }
  free(env);  // `host` still owns the memory
  return output_to_js(env, host);
}

napi_value HeldTensor::unstack(napi_env env) const {
  const c10::InferenceMode inference;
  auto rows = tensor().unbind();
  napi_value list;
  check(napi_create_array_with_length(env, rows.size(), &list));
  for (uint32_t i = 0; i < rows.size(); ++i) {
    check(napi_set_element(env, list, i, held_to_js(env, std::move(rows[i]), stream_)));
  }
  return list;
}

void HeldTensor::free(napi_env env) noexcept {
  if (!tensor_.defined()) return;
  adjust_memory(env, -static_cast<int64_t>(tensor_.nbytes()));
  const DeviceScope scope(stream_, std::nothrow);
  tensor_.reset();
}

napi_value held_to_js(napi_env env, at::Tensor tensor, c10::Stream stream) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  auto held = std::make_unique<HeldTensor>(std::move(tensor), stream);
  const auto collected = [](napi_env of, void* data, void*) {
    const std::unique_ptr<HeldTensor> owned(static_cast<HeldTensor*>(data));
    owned->free(of);
  };
  const napi_value value = external_to_js(env, std::move(held), kTensorTag, collected);
  adjust_memory(env, bytes);
  return value;
}

HeldTensor& held_from_js(napi_env env, napi_value value) {
  auto* held = external_from_js<HeldTensor>(env, value, kTensorTag);
  if (held == nullptr) throw CodedError("tensor_invalid", "expected a tensor");
  return *held;
}

}  // namespace sconce
