// What a method of a module takes and gives, between JavaScript and TorchScript.
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

/** A tensor that nobody else refers to, or a plain value; `double` is a JS number, `int64_t` a bigint. */
struct Value {
  std::variant<std::monostate, at::Tensor, double, int64_t, bool, std::string, ValueList, ValueRecord> held;
};

/** Copies what JS gave, `depth` lists deep. Throws `tensor_invalid` that begins with `where`. For the JS thread. */
Value value_from_js(napi_env env, napi_value value, const std::string& where, int depth = 0);
/** For the JS thread; large tensors hand their memory over. */
napi_value value_to_js(napi_env env, Value& value);

/** As an argument of `type` needs it: a number becomes int or float. Throws `tensor_invalid` that begins with `where`. */
c10::IValue value_to_ivalue(const Value& value, const c10::TypePtr& type, c10::Device device, const std::string& where);
/** With tensors as contiguous memory of the CPU, copied. Throws `weights_invalid` for what JS has no form for. */
Value value_from_ivalue(const c10::IValue& value, const std::string& where);
/** The tensor as contiguous memory of the CPU that nothing else refers to. */
Value value_from_tensor(const at::Tensor& tensor, const std::string& where);

/** Its kind for messages: `a tensor`, `a number`. */
const char* kind_of(const Value& value);

}  // namespace sconce
