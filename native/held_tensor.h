// Tensors that JS holds without a copy, on any device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <node_api.h>

namespace sconce {

/** For the JS thread only. */
class HeldTensor {
 public:
  HeldTensor(at::Tensor tensor, c10::Stream stream);

  /** Throws `tensor_invalid` after `free`. */
  const at::Tensor& tensor() const;
  /**
   * Copies the elements to JS, waits for the copy, and frees the tensor. `is_output`: the copy is only a view where the
   * tensor is large and on the CPU.
   */
  napi_value take(napi_env env, bool is_output);
  /** May be called again. */
  void free(napi_env env) noexcept;

 private:
  /** Undefined after `free`. */
  at::Tensor tensor_;
  /** Stream of the session that made it. */
  c10::Stream stream_;
};

/** Creates an external. JS learns the size of the tensor, and frees it with the external. */
napi_value held_to_js(napi_env env, at::Tensor tensor, c10::Stream stream);
/** Throws `tensor_invalid` for another external. */
HeldTensor& held_from_js(napi_env env, napi_value value);

}  // namespace sconce
