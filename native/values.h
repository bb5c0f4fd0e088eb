// Converts results, errors and sessions to JS values.
#pragma once

#include <node_api.h>

#include <memory>

#include "host.h"
#include "session.h"

namespace sconce {

/** Throws if a Node-API call failed. */
void check(napi_status status);

/** Releases all JS handles created while the object exists. */
class HandleScope {
 public:
  explicit HandleScope(napi_env env) : env_(env) { check(napi_open_handle_scope(env_, &scope_)); }
  ~HandleScope() { napi_close_handle_scope(env_, scope_); }
  HandleScope(const HandleScope&) = delete;
  HandleScope& operator=(const HandleScope&) = delete;

 private:
  napi_env env_;
  napi_handle_scope scope_ = nullptr;
};

std::string text_of(napi_env env, napi_value value);
napi_value member_of(napi_env env, napi_value object, const char* name);

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
napi_value sizes_to_js(napi_env env, c10::IntArrayRef sizes);

/** Creates a JS Error with the property `code`. */
napi_value error_to_js(napi_env env, const CodedError& error);

/** Creates a JS handle of a session. The session is closed when JS collects the handle. */
napi_value session_to_js(napi_env env, const std::shared_ptr<Host>& host, const std::shared_ptr<Session>& session);
const std::shared_ptr<Session>& session_from_js(napi_env env, napi_value value);

}  // namespace sconce
