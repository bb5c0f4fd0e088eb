// Converts arguments and results of method calls between JavaScript and TorchScript.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Stream.h>
#include <napi.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sconce {

struct Value;
using ValueList = std::vector<Value>;
using ValueRecord = std::vector<std::pair<std::string, Value>>;

/** A tensor on any device, or a plain value. `double` is a JS number, `int64_t` a JS bigint. */
struct Value {
  std::variant<std::monostate, at::Tensor, double, int64_t, bool, std::string, ValueList, ValueRecord> held;
};

/** Converts a JS value, and copies its typed arrays. Throws `tensor_invalid` for a freed tensor. Only for the JS thread. */
Value value_from_js(const Napi::Value& value);
/**
 * Converts to a JS value. Tensors become JS handles, without a copy of their elements. Only for the JS thread.
 * @param stream the stream of the session that computed the tensors
 */
napi_value value_to_js(napi_env env, Value& value, c10::Stream stream);

/**
 * Converts to an argument of the TorchScript type `type`; numbers become int or float. Throws `tensor_invalid` with a
 * message that begins with `where`.
 */
c10::IValue value_to_ivalue(const Value& value, const c10::TypePtr& type, c10::Device device, const std::string& where);
/**
 * Converts a result of TorchScript. Its tensors become contiguous, and may share memory with the weights. Throws
 * `weights_invalid` for types that JavaScript lacks.
 */
Value value_from_ivalue(const c10::IValue& value, const std::string& where);
/** Converts a single tensor, as `value_from_ivalue` does. */
Value value_from_tensor(const at::Tensor& tensor, const std::string& where);

/** Copies the tensors of a result that share memory with others, because the next call may overwrite that memory. */
void own_tensors(Value& result);
/** Tells the allocator that work on `stream` uses the tensors, so that it does not reuse their memory too early. */
void use_tensors_on(Value& value, c10::Stream stream);

}  // namespace sconce
