// Converts values between JavaScript and C++. Only the JS thread may call these functions.
#include <cstring>

#include <ATen/ops/empty.h>

#include "error.h"
#include "tensor.h"
#include "call_value.h"
#include "held_tensor.h"
#include "values.h"

namespace sconce {
namespace {

/** src/engine/native/native-tensor.ts has checked the tensor, with messages that name the argument. */
at::Tensor tensor_from_js(const Napi::Object& given) {
  const auto data = given.Get("data").As<Napi::TypedArray>();
  const auto& info = kDTypes.at(given.Get("code").As<Napi::Number>().Uint32Value());
  auto tensor = at::empty(sizes_from_js(given.Get("shape")), info.scalar);
  if (data.ByteLength() != tensor.nbytes()) throw CodedError("tensor_invalid", "a tensor has another size than its data");
  if (tensor.nbytes() > 0) {
    std::memcpy(tensor.mutable_data_ptr(), static_cast<const char*>(data.ArrayBuffer().Data()) + data.ByteOffset(), tensor.nbytes());
  }
  return tensor;
}

Napi::Value tensor_to_js(Napi::Env env, at::Tensor& tensor, c10::Stream stream) {
  auto object = Napi::Object::New(env);
  object.Set("dtype", info_of(tensor.scalar_type())->name);  // never null: value_from_tensor has checked the dtype
  object.Set("shape", sizes_to_js(env, tensor.sizes()));
  object.Set("device", tensor.device().str());
  object.Set("held", held_to_js(env, std::move(tensor), stream));
  return object;
}

Napi::Value list_to_js(Napi::Env env, ValueList& list, c10::Stream stream) {
  auto array = Napi::Array::New(env, list.size());
  for (uint32_t i = 0; i < list.size(); ++i) array.Set(i, value_to_js(env, list[i], stream));
  return array;
}

Napi::Value record_to_js(Napi::Env env, ValueRecord& record, c10::Stream stream) {
  auto object = Napi::Object::New(env);
  const auto attributes = static_cast<napi_property_attributes>(napi_writable | napi_enumerable | napi_configurable);
  for (auto& [name, value] : record) {
    // Defines the property, because assignment to "__proto__" would change the prototype.
    const Napi::Value converted(env, value_to_js(env, value, stream));
    object.DefineProperty(Napi::PropertyDescriptor::Value(Napi::String::New(env, name), converted, attributes));
  }
  return object;
}

}  // namespace

Value value_from_js(const Napi::Value& value) {
  if (value.IsArray()) {
    const auto array = value.As<Napi::Array>();
    ValueList list;
    for (uint32_t i = 0; i < array.Length(); ++i) {
      const Napi::HandleScope scope(value.Env());
      list.push_back(value_from_js(array.Get(i)));
    }
    return {std::move(list)};
  }
  bool lossless;
  switch (value.Type()) {
    case napi_boolean: return {value.As<Napi::Boolean>().Value()};
    case napi_number: return {value.As<Napi::Number>().DoubleValue()};
    case napi_bigint: return {value.As<Napi::BigInt>().Int64Value(&lossless)};
    case napi_string: return {value.As<Napi::String>().Utf8Value()};
    case napi_object: return {tensor_from_js(value.As<Napi::Object>())};
    case napi_external: return {held_from_js(value.Env(), value).tensor()};
    default: return {};
  }
}

napi_value value_to_js(napi_env env, Value& value, c10::Stream stream) {
  if (auto* tensor = std::get_if<at::Tensor>(&value.held)) return tensor_to_js(env, *tensor, stream);
  if (auto* list = std::get_if<ValueList>(&value.held)) return list_to_js(env, *list, stream);
  if (auto* record = std::get_if<ValueRecord>(&value.held)) return record_to_js(env, *record, stream);
  if (const auto* number = std::get_if<double>(&value.held)) return Napi::Number::New(env, *number);
  if (const auto* whole = std::get_if<int64_t>(&value.held)) return Napi::BigInt::New(env, *whole);
  if (const auto* flag = std::get_if<bool>(&value.held)) return Napi::Boolean::New(env, *flag);
  if (const auto* text = std::get_if<std::string>(&value.held)) return Napi::String::New(env, *text);
  return Napi::Env(env).Null();
}

}  // namespace sconce
