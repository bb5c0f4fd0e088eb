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

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw CodedError("tensor_invalid", where + ": " + what);
}

const DTypeInfo* dtype_named(napi_env env, napi_value value) {
  napi_valuetype type;
  check(napi_typeof(env, value, &type));
  if (type != napi_string) return nullptr;
  const std::string name = text_of(env, value);
  for (const auto& info : kDTypes) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

std::vector<int64_t> sizes_from_js(napi_env env, napi_value shape, const std::string& where) {
  bool is_array = false;
  check(napi_is_array(env, shape, &is_array));
  if (!is_array) refuse(where, "a tensor needs a list of sizes as its shape");
  uint32_t rank;
  check(napi_get_array_length(env, shape, &rank));
  std::vector<int64_t> sizes;
  for (uint32_t i = 0; i < rank; ++i) {
    napi_value element;
    check(napi_get_element(env, shape, i, &element));
    double size;
    if (napi_get_value_double(env, element, &size) != napi_ok || !is_size(size)) {
      refuse(where, "the sizes of a tensor must be whole numbers");
    }
    sizes.push_back(static_cast<int64_t>(size));
  }
  return sizes;
}

at::Tensor tensor_from_js(napi_env env, napi_value value, const std::string& where) {
  const DTypeInfo* info = dtype_named(env, member_of(env, value, "dtype"));
  if (info == nullptr) {
    refuse(where, "expected a tensor, number, bigint, boolean, string, null or a list of these, received another object");
  }
  const auto sizes = sizes_from_js(env, member_of(env, value, "shape"), where);
  napi_typedarray_type type;
  size_t elements;
  void* data;
  const napi_value array = member_of(env, value, "data");
  if (napi_get_typedarray_info(env, array, &type, &elements, &data, nullptr, nullptr) != napi_ok || type != info->array) {
    refuse(where, std::string(info->name) + " needs its data in a " + info->array_name);
  }
  int64_t wanted = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(wanted, size, &wanted)) refuse(where, "the shape asks for too many elements");
  }
  if (static_cast<size_t>(wanted) != elements) {
    refuse(where, tensor_text(info->scalar, sizes) + " needs " + std::to_string(wanted) + " elements, its data has " +
                      std::to_string(elements));
  }
  auto tensor = at::empty(sizes, at::TensorOptions().dtype(info->scalar).device(c10::kCPU));
  if (elements > 0) std::memcpy(tensor.mutable_data_ptr(), data, tensor.nbytes());
  return tensor;
}

/** Deepest nesting of lists, because a list may contain itself. */
constexpr int kMaxDepth = 64;

ValueList list_from_js(napi_env env, napi_value value, const std::string& where, int depth) {
  if (depth == kMaxDepth) refuse(where.substr(0, where.find('[')), "lists may nest 64 deep");
  uint32_t length;
  check(napi_get_array_length(env, value, &length));
  ValueList list;
  for (uint32_t i = 0; i < length; ++i) {
    const HandleScope scope(env);
    napi_value element;
    check(napi_get_element(env, value, i, &element));
    list.push_back(value_from_js(env, element, where + "[" + std::to_string(i) + "]", depth + 1));
  }
  return list;
}

int64_t whole_from_js(napi_env env, napi_value value, const std::string& where) {
  int64_t whole;
  bool lossless = false;
  check(napi_get_value_bigint_int64(env, value, &whole, &lossless));
  if (!lossless) refuse(where, "the bigint does not fit in 64 bits");
  return whole;
}

napi_value string_to_js(napi_env env, const std::string& text) {
  napi_value string;
  check(napi_create_string_utf8(env, text.c_str(), text.size(), &string));
  return string;
}

napi_value tensor_to_js(napi_env env, at::Tensor& tensor, c10::Stream stream) {
  const DTypeInfo& info = *info_of(tensor.scalar_type());  // never null: value_from_tensor has checked the dtype
  napi_value object;
  check(napi_create_object(env, &object));
  check(napi_set_named_property(env, object, "dtype", string_to_js(env, info.name)));
  check(napi_set_named_property(env, object, "shape", sizes_to_js(env, tensor.sizes())));
  check(napi_set_named_property(env, object, "device", string_to_js(env, tensor.device().str())));
  check(napi_set_named_property(env, object, "held", held_to_js(env, std::move(tensor), stream)));
  return object;
}

napi_value list_to_js(napi_env env, ValueList& list, c10::Stream stream) {
  napi_value array;
  check(napi_create_array_with_length(env, list.size(), &array));
  for (uint32_t i = 0; i < list.size(); ++i) check(napi_set_element(env, array, i, value_to_js(env, list[i], stream)));
  return array;
}

napi_value record_to_js(napi_env env, ValueRecord& record, c10::Stream stream) {
  napi_value object;
  check(napi_create_object(env, &object));
  for (auto& [name, value] : record) {
    // Defines the property, because assignment to "__proto__" would change the prototype.
    napi_property_descriptor property{};
    check(napi_create_string_utf8(env, name.c_str(), name.size(), &property.name));
    property.value = value_to_js(env, value, stream);
    property.attributes = static_cast<napi_property_attributes>(napi_writable | napi_enumerable | napi_configurable);
    check(napi_define_properties(env, object, 1, &property));
  }
  return object;
}

}  // namespace

Value value_from_js(napi_env env, napi_value value, const std::string& where, int depth) {
  napi_valuetype type;
  check(napi_typeof(env, value, &type));
  bool is_array = false;
  check(napi_is_array(env, value, &is_array));
  if (is_array) return {list_from_js(env, value, where, depth)};
  switch (type) {
    case napi_undefined:
    case napi_null: return {};
    case napi_boolean: {
      bool flag;
      check(napi_get_value_bool(env, value, &flag));
      return {flag};
    }
    case napi_number: {
      double number;
      check(napi_get_value_double(env, value, &number));
      return {number};
    }
    case napi_bigint: return {whole_from_js(env, value, where)};
    case napi_string: return {text_of(env, value)};
    case napi_object: return {tensor_from_js(env, value, where)};
    case napi_external: return {held_from_js(env, value).tensor()};
    default: refuse(where, "expected a tensor, number, bigint, boolean, string, null or a list of these");
  }
}

napi_value value_to_js(napi_env env, Value& value, c10::Stream stream) {
  napi_value result;
  if (auto* tensor = std::get_if<at::Tensor>(&value.held)) return tensor_to_js(env, *tensor, stream);
  if (auto* list = std::get_if<ValueList>(&value.held)) return list_to_js(env, *list, stream);
  if (auto* record = std::get_if<ValueRecord>(&value.held)) return record_to_js(env, *record, stream);
  if (const auto* number = std::get_if<double>(&value.held)) check(napi_create_double(env, *number, &result));
  else if (const auto* whole = std::get_if<int64_t>(&value.held)) check(napi_create_bigint_int64(env, *whole, &result));
  else if (const auto* flag = std::get_if<bool>(&value.held)) check(napi_get_boolean(env, *flag, &result));
  else if (const auto* text = std::get_if<std::string>(&value.held)) result = string_to_js(env, *text);
  else check(napi_get_null(env, &result));
  return result;
}

}  // namespace sconce
