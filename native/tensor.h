// Declared tensors, dtypes, and checks of outputs.
#pragma once

#include <ATen/core/Tensor.h>
#include <js_native_api_types.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace sconce {

struct DTypeInfo {
  const char* name;
  c10::ScalarType scalar;
  napi_typedarray_type array;
  size_t bytes;
};

/** All dtypes. The index of a dtype is its code in JS. */
inline constexpr std::array<DTypeInfo, 10> kDTypes{{
    {"float32", c10::ScalarType::Float, napi_float32_array, 4},
    {"float64", c10::ScalarType::Double, napi_float64_array, 8},
    {"float16", c10::ScalarType::Half, napi_uint16_array, 2},
    {"bfloat16", c10::ScalarType::BFloat16, napi_uint16_array, 2},
    {"int8", c10::ScalarType::Char, napi_int8_array, 1},
    {"int16", c10::ScalarType::Short, napi_int16_array, 2},
    {"int32", c10::ScalarType::Int, napi_int32_array, 4},
    {"int64", c10::ScalarType::Long, napi_bigint64_array, 8},
    {"uint8", c10::ScalarType::Byte, napi_uint8_array, 1},
    {"bool", c10::ScalarType::Bool, napi_uint8_array, 1},
}};

/**
 * A dimension: of the fixed size `size`, or with a name. Dimensions with equal names have one `symbol`, and equal sizes
 * in an item. Their sizes must agree within a batch, unless they are padded.
 */
struct Dim {
  int64_t size = -1;
  int symbol = -1;
  bool padded = false;
  /** The bytes of the element that fills a padded dimension. */
  std::array<char, 8> fill{};
};

/** A declared tensor of one item, without the batch dimension. */
struct TensorSpec {
  std::string name;
  uint8_t dtype = 0;
  std::vector<Dim> dims;
  /** The declaration in the author's notation: `float32(3, "height", "width")`. */
  std::string text;

  const DTypeInfo& info() const { return kDTypes[dtype]; }
};

inline bool is_size(double number) { return number >= 0 && number <= 9007199254740991.0 && std::trunc(number) == number; }

/** A dtype with sizes, such as `float32(10)`. Unsupported dtypes get PyTorch's name. */
std::string tensor_text(c10::ScalarType type, c10::IntArrayRef sizes);

const DTypeInfo* info_of(c10::ScalarType type);

/** Names in parentheses: `(ids, mask)`. */
std::string names_text(const std::vector<std::string>& names);

/** Throws `weights_invalid` for sparse and quantized tensors, with a message that begins with `giver`. */
void require_plain(const at::Tensor& tensor, const std::string& giver);

/** Whether the tensor or its memory has other references. */
bool is_shared(const at::Tensor& tensor);

/** Whether nothing else refers to the tensor's memory, and the tensor uses at least half of it. */
bool owns_memory(const at::Tensor& tensor);

/**
 * Checks an output, and returns it in contiguous memory on `device` that nothing else refers to. Throws
 * `weights_invalid` if it does not have `rows` rows, or differs from the declared dtype, rank or fixed sizes.
 */
at::Tensor own_output(const TensorSpec& spec, at::Tensor tensor, int64_t rows, c10::Device device);

}  // namespace sconce
