// Converts results, errors and sessions to JS values.
#pragma once

#include <napi.h>

#include <memory>

#include "host.h"
#include "session.h"

namespace sconce {

/** Throws if a Node-API call failed. */
void check(napi_status status);

/** Creates a JS external that owns an object. `tag` distinguishes it from the externals of other addons. */
template <typename Owned>
napi_value external_to_js(napi_env env, std::unique_ptr<Owned> owned, const napi_type_tag& tag, napi_finalize lost) {
  napi_value value;
  check(napi_create_external(env, owned.get(), lost, nullptr, &value));
  owned.release();
  check(napi_type_tag_object(env, value, &tag));
  return value;
}

/** The object of a JS external with this tag; null for any other value. */
template <typename Owned>
Owned* external_from_js(napi_env env, napi_value value, const napi_type_tag& tag) {
  bool is_tagged = false;
  void* data = nullptr;
  if (napi_check_object_type_tag(env, value, &tag, &is_tagged) != napi_ok || !is_tagged) return nullptr;
  check(napi_get_value_external(env, value, &data));
  return static_cast<Owned*>(data);
}

/** Counts memory outside of JS, so that the garbage collector does not free its owners too late. */
inline void adjust_memory(napi_env env, int64_t bytes) {
  int64_t total;
  napi_adjust_external_memory(env, bytes, &total);
}

/** Allocates an ArrayBuffer that JS owns; throws `out_of_memory`. */
napi_value new_buffer(napi_env env, size_t bytes, void** data);

/**
 * The outputs of a batch: a typed array for each, then the sizes of each that has named dimensions. Large outputs stay
 * in libtorch's memory, which JS cannot transfer.
 */
napi_value outputs_to_js(napi_env env, Job& job);

/** The inputs of a batch, stacked into memory of JS, in the form of `outputs_to_js`. */
napi_value stacked_to_js(napi_env env, Stacker& stacker, int64_t rows, const PackedBatch& packed);

/**
 * Copies the tensor's elements to a typed array. JS owns the memory, so the author's code can transfer it to a Worker.
 */
napi_value elements_to_js(napi_env env, const at::Tensor& tensor);
/** Converts an output. A large tensor that owns its memory is handed over without a copy; JS cannot transfer it. */
napi_value output_to_js(napi_env env, const at::Tensor& tensor);
/** The elements of a JS array, converted. */
template <typename Convert>
auto list_from_js(const Napi::Value& value, const Convert& convert) {
  const auto list = value.As<Napi::Array>();
  std::vector<std::invoke_result_t<Convert, Napi::Value>> elements;
  for (uint32_t i = 0; i < list.Length(); ++i) elements.push_back(convert(list.Get(i)));
  return elements;
}
std::vector<int64_t> sizes_from_js(const Napi::Value& value);
Napi::Array sizes_to_js(Napi::Env env, c10::IntArrayRef sizes);

/** Creates a JS Error with the property `code`. */
napi_value error_to_js(napi_env env, const CodedError& error);

/** Creates a JS handle of a session. The session is closed when JS collects the handle. */
napi_value session_to_js(napi_env env, const std::shared_ptr<Host>& host, const std::shared_ptr<Session>& session);
const std::shared_ptr<Session>& session_from_js(napi_env env, napi_value value);

}  // namespace sconce
