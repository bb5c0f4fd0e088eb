#include "values.h"

#include <algorithm>
#include <cstring>

namespace sconce {
namespace {

/** Smaller tensors are copied, which is cheaper than a finalizer that frees their memory. */
constexpr size_t kMinExternalBytes = 256 * 1024;

struct SessionHandle {
  std::shared_ptr<Host> host;
  std::shared_ptr<Session> session;
};

/** Type tag of this addon's sessions, so that externals of other addons are refused. */
constexpr napi_type_tag kSessionTag{0x5c0ce5e551015c0c, 0x8d3f2a6b7e914f05};

napi_value external_buffer(napi_env env, at::Tensor tensor) {
  const size_t bytes = tensor.nbytes();
  auto owner = std::make_unique<at::Tensor>(std::move(tensor));
  const auto free = [](napi_env of, void*, void* hint) {
    const std::unique_ptr<at::Tensor> owned(static_cast<at::Tensor*>(hint));
    adjust_memory(of, -static_cast<int64_t>(owned->nbytes()));
  };
  napi_value buffer;
  if (napi_create_external_arraybuffer(env, owner->mutable_data_ptr(), bytes, free, owner.get(), &buffer) != napi_ok) {
    return nullptr;
  }
  owner.release();
  adjust_memory(env, static_cast<int64_t>(bytes));
  return buffer;
}

napi_value typed_array(napi_env env, size_t elements, napi_value buffer, napi_typedarray_type type) {
  napi_value array;
  check(napi_create_typedarray(env, type, elements, buffer, 0, &array));
  return array;
}

/** Appends the sizes of each tensor that has dimensions with names, after the typed arrays. */
template <typename SizesOf>
void add_sizes(napi_env env, napi_value result, const std::vector<TensorSpec>& specs, const SizesOf& sizes_of) {
  auto place = static_cast<uint32_t>(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto& dims = specs[i].dims;
    if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.symbol >= 0; })) {
      check(napi_set_element(env, result, place++, sizes_to_js(env, sizes_of(i))));
    }
  }
}

}  // namespace

napi_value new_buffer(napi_env env, size_t bytes, void** data) {
  napi_value buffer;
  if (napi_create_arraybuffer(env, bytes, data, &buffer) == napi_ok) return buffer;
  napi_value thrown;  // clears the JS exception, so that the error below can replace it
  napi_get_and_clear_last_exception(env, &thrown);
  throw CodedError("out_of_memory", "a tensor of the batch does not fit in memory");
}

Napi::Array sizes_to_js(Napi::Env env, c10::IntArrayRef sizes) {
  auto array = Napi::Array::New(env, sizes.size());
  for (uint32_t i = 0; i < sizes.size(); ++i) array.Set(i, static_cast<double>(sizes[i]));
  return array;
}

std::vector<int64_t> sizes_from_js(const Napi::Value& value) {
  return list_from_js(value, [](const Napi::Value& size) { return size.As<Napi::Number>().Int64Value(); });
}

napi_value elements_to_js(napi_env env, const at::Tensor& tensor) {
  void* data;
  const napi_value buffer = new_buffer(env, tensor.nbytes(), &data);
  if (tensor.nbytes() > 0) std::memcpy(data, tensor.const_data_ptr(), tensor.nbytes());
  return typed_array(env, tensor.numel(), buffer, info_of(tensor.scalar_type())->array);
}

napi_value output_to_js(napi_env env, const at::Tensor& tensor) {
  napi_value buffer = nullptr;
  if (tensor.nbytes() >= kMinExternalBytes && owns_memory(tensor)) buffer = external_buffer(env, tensor);
  if (buffer == nullptr) return elements_to_js(env, tensor);
  return typed_array(env, tensor.numel(), buffer, info_of(tensor.scalar_type())->array);
}

void check(napi_status status) {
  if (status == napi_ok) return;
  throw CodedError("run_failed", "a call of Node-API failed with status " + std::to_string(status));
}

napi_value outputs_to_js(napi_env env, Job& job) {
  const auto& specs = job.session->outputs();
  napi_value result;
  check(napi_create_array_with_length(env, specs.size(), &result));
  add_sizes(env, result, specs, [&](size_t i) { return job.outputs[i].sizes(); });
  for (uint32_t i = 0; i < specs.size(); ++i) {
    check(napi_set_element(env, result, i, output_to_js(env, job.outputs[i])));
  }
  return result;
}

napi_value stacked_to_js(napi_env env, Stacker& stacker, int64_t rows, const PackedBatch& packed) {
  const auto& specs = stacker.specs();
  napi_value result;
  check(napi_create_array_with_length(env, specs.size(), &result));
  uint32_t next = 0;
  const Batch batch = stacker.stack(env, rows, packed, [&](size_t bytes) {
    void* data;
    const napi_value buffer = new_buffer(env, bytes, &data);
    const auto& info = specs[next].info();
    check(napi_set_element(env, result, next++, typed_array(env, bytes / info.bytes, buffer, info.array)));
    return c10::Storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(data, c10::DeviceType::CPU), nullptr, false);
  });
  add_sizes(env, result, specs, [&](size_t i) { return c10::IntArrayRef(batch.inputs[i].shape); });
  return result;
}

napi_value error_to_js(napi_env env, const CodedError& error) {
  napi_value value;
  check(napi_create_error(env, Napi::String::New(env, error.code()), Napi::String::New(env, error.what()), &value));
  return value;
}

napi_value session_to_js(napi_env env, const std::shared_ptr<Host>& host, const std::shared_ptr<Session>& session) {
  auto handle = std::make_unique<SessionHandle>(SessionHandle{host, session});
  const auto lost = [](napi_env, void* data, void*) {
    const std::unique_ptr<SessionHandle> owned(static_cast<SessionHandle*>(data));
    owned->host->close(owned->session, false);
  };
  return external_to_js(env, std::move(handle), kSessionTag, lost);
}

const std::shared_ptr<Session>& session_from_js(napi_env env, napi_value value) {
  const auto* handle = external_from_js<SessionHandle>(env, value, kSessionTag);
  if (handle == nullptr) throw CodedError("session_closed", "expected a session");
  return handle->session;
}

}  // namespace sconce
