// Conversion of arguments and results between JavaScript and TorchScript.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <node_api.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sconce {

struct Value;
using ValueList = std::vector<Value>;
using ValueRecord = std::vector<std::pair<std::string, Value>>;

/** A tensor without other references, or a plain value; `double` is a JS number, `int64_t` a bigint. */
struct Value {
  std::variant<std::monostate, at::Tensor, double, int64_t, bool, std::string, ValueList, ValueRecord> held;
};

/**
 * Copies a JS value that is nested in `depth` lists. Throws `tensor_invalid`, beginning with `where`. For the JS thread
 * only.
 */
Value value_from_js(napi_env env, napi_value value, const std::string& where, int depth = 0);
/** For the JS thread only. */
napi_value value_to_js(napi_env env, Value& value);

/** Converts to an argument of `type`; numbers become int or float. Throws `tensor_invalid`, beginning with `where`. */
c10::IValue value_to_ivalue(const Value& value, const c10::TypePtr& type, c10::Device device, const std::string& where);
/**
 * Converts a result and copies its tensors to contiguous CPU memory. Throws `weights_invalid` for types without a JS
 * form.
 */
Value value_from_ivalue(const c10::IValue& value, const std::string& where);
/** Copies the tensor to contiguous CPU memory. */
Value value_from_tensor(const at::Tensor& tensor, const std::string& where);

/** The kind for messages: `a tensor`, `a number`. */
const char* kind_of(const Value& value);

}  // namespace sconce
