// JS values: what results, errors and sessions look like to the binding.
#pragma once

#include <node_api.h>

#include <memory>

#include "host.h"
#include "session.h"

namespace sconce {

/** Throws where a call of Node-API did not succeed. */
void check(napi_status status);

/** Values made within it are let go at its end. */
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

/** A text of JS's. */
std::string text_of(napi_env env, napi_value value);
napi_value member_of(napi_env env, napi_value object, const char* name);

/** New memory of JS's; throws `out_of_memory`. */
napi_value new_buffer(napi_env env, size_t bytes, void** data);

/** The results of a batch: one typed array for each output, then the sizes of each output that has named sizes. Large ones are memory of
 *  libtorch's, which cannot be transferred. */
napi_value outputs_to_js(napi_env env, Job& job);

/** The same of a batch's inputs, which are stacked into memory of JS's. */
napi_value stacked_to_js(napi_env env, Stacker& stacker, int64_t rows, const PackedBatch& packed);

/** A typed array of the tensor's elements, copied: the memory is JS's own, as the author's code may want to transfer it to a Worker. */
napi_value elements_to_js(napi_env env, const at::Tensor& tensor, napi_typedarray_type type);
napi_value sizes_to_js(napi_env env, c10::IntArrayRef sizes);

/** A JS Error with the property `code`. */
napi_value error_to_js(napi_env env, const CodedError& error);

/** What JS names a session by; closes the session when JS has lost it. */
napi_value session_to_js(napi_env env, const std::shared_ptr<Host>& host, const std::shared_ptr<Session>& session);
const std::shared_ptr<Session>& session_from_js(napi_env env, napi_value value);

}  // namespace sconce
