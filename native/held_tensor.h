// Tensors, on any device, that JS holds without a copy of their elements.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <node_api.h>

namespace sconce {

/** A tensor that a JS value owns. Only for the JS thread. */
class HeldTensor {
 public:
  HeldTensor(at::Tensor tensor, c10::Stream stream);

  /** The tensor. Throws `tensor_invalid` after `free`. */
  const at::Tensor& tensor() const;
  /**
   * Returns the elements to JS, and frees the tensor. Waits for a copy from a GPU. With `is_output`, JS gets the memory
   * of a large CPU tensor without a copy.
   */
  napi_value take(napi_env env, bool is_output);
  /** The rows along the first dimension, as JS externals that share the memory. */
  napi_value unstack(napi_env env) const;
  /** Frees the memory. A second call has no effect. */
  void free(napi_env env) noexcept;

 private:
  at::Tensor tensor_;
  /** Stream of the session that made the tensor. */
  c10::Stream stream_;
};

/** Creates a JS external that owns the tensor. The tensor is freed when JS collects the external. */
napi_value held_to_js(napi_env env, at::Tensor tensor, c10::Stream stream);
/** The tensor of a JS external. Throws `tensor_invalid` for any other value. */
HeldTensor& held_from_js(napi_env env, napi_value value);

}  // namespace sconce
