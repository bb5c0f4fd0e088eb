// Conversion of results, errors and sessions to JS values.
#pragma once

#include <node_api.h>

#include <memory>

#include "host.h"
#include "session.h"

namespace sconce {

/** Throws if a Node-API call failed. */
void check(napi_status status);

/** Releases all JS values created within the scope. */
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

/** Converts a JS string. */
std::string text_of(napi_env env, napi_value value);
napi_value member_of(napi_env env, napi_value object, const char* name);

/** Allocates memory owned by JS; throws `out_of_memory`. */
napi_value new_buffer(napi_env env, size_t bytes, void** data);

/**
 * Results of a batch: a typed array per output, then the sizes of each output with named dimensions. Large outputs are
 * libtorch's memory, which cannot be transferred.
 */
napi_value outputs_to_js(napi_env env, Job& job);

/** The same for a batch's inputs, stacked into JS memory. */
napi_value stacked_to_js(napi_env env, Stacker& stacker, int64_t rows, const PackedBatch& packed);

/**
 * Copies the tensor's elements to a typed array. JS owns the memory, so that the author's code can transfer it to a
 * Worker.
 */
napi_value elements_to_js(napi_env env, const at::Tensor& tensor);
/** The same, but a large tensor that owns its memory hands the memory over. JS cannot transfer it then. */
napi_value output_to_js(napi_env env, const at::Tensor& tensor);
napi_value sizes_to_js(napi_env env, c10::IntArrayRef sizes);

/** Creates a JS Error with the property `code`. */
napi_value error_to_js(napi_env env, const CodedError& error);

/** Creates a JS handle of a session. When JS collects the handle, the session is closed. */
napi_value session_to_js(napi_env env, const std::shared_ptr<Host>& host, const std::shared_ptr<Session>& session);
const std::shared_ptr<Session>& session_from_js(napi_env env, napi_value value);

}  // namespace sconce
