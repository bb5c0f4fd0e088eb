// Declarations of tensors, the one table of dtypes, and the checks of what weights give.
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
  const char* array_name;
  size_t bytes;
};

/** Every dtype; its index is the code by which the binding names it. */
inline constexpr std::array<DTypeInfo, 10> kDTypes{{
    {"float32", c10::ScalarType::Float, napi_float32_array, "Float32Array", 4},
    {"float64", c10::ScalarType::Double, napi_float64_array, "Float64Array", 8},
    {"float16", c10::ScalarType::Half, napi_uint16_array, "Uint16Array", 2},
    {"bfloat16", c10::ScalarType::BFloat16, napi_uint16_array, "Uint16Array", 2},
    {"int8", c10::ScalarType::Char, napi_int8_array, "Int8Array", 1},
    {"int16", c10::ScalarType::Short, napi_int16_array, "Int16Array", 2},
    {"int32", c10::ScalarType::Int, napi_int32_array, "Int32Array", 4},
    {"int64", c10::ScalarType::Long, napi_bigint64_array, "BigInt64Array", 8},
    {"uint8", c10::ScalarType::Byte, napi_uint8_array, "Uint8Array", 1},
    {"bool", c10::ScalarType::Bool, napi_uint8_array, "Uint8Array", 1},
}};

/** One dimension: fixed (`size` ≥ 0), or named; the sizes of one name (`symbol`) must agree within a batch. */
struct Dim {
  int64_t size = -1;
  int symbol = -1;
  bool padded = false;
  double fill = 0;
  std::string name;
};

/** One declared tensor of one item: there is no batch dimension. */
struct TensorSpec {
  std::string name;
  uint8_t dtype = 0;
  std::vector<Dim> dims;

  const DTypeInfo& info() const { return kDTypes[dtype]; }
  /** As an author writes it: `float32(3, "height", "width")`. */
  std::string text() const;
  /** The bytes of one element of a padded dimension; throws `tensor_invalid` where the dtype cannot hold the value. */
  std::array<char, 8> fill_bytes(const Dim& dim) const;
};

/** Gives every dimension of the same name and kind the same symbol; returns how many symbols there are. */
int number_symbols(std::vector<TensorSpec>& specs);

/** The size of a dimension: a whole number from 0 to where numbers are no longer whole; false also for NaN. */
inline bool is_size(double number) { return number >= 0 && number <= 9007199254740991.0 && std::trunc(number) == number; }

/** `float32(10)`; a dtype that sconce lacks is named as PyTorch names it. */
std::string tensor_text(c10::ScalarType type, c10::IntArrayRef sizes);

/** As JavaScript writes it: whole numbers without a point. */
std::string number_text(double value);

/** Nothing for a dtype that sconce lacks. */
const DTypeInfo* info_of(c10::ScalarType type);

/** Names, or anything else, in parentheses: `(ids, mask)`. */
std::string names_text(const std::vector<std::string>& names);

/** Throws `weights_invalid` for a tensor whose elements do not lie side by side: "`giver` gave …". */
void require_plain(const at::Tensor& tensor, const std::string& giver);

/** Whether anything beside this tensor refers to its memory. */
bool is_shared(const at::Tensor& tensor);

/**
 * The tensor after checking it, as contiguous memory of `device` that nothing else refers to: what the weights keep they
 * may write into at the next batch. Dim 0 must be `rows`, and dtype, rank and fixed sizes as declared. Throws
 * `weights_invalid`, naming the output, what was declared and what the weights gave.
 */
at::Tensor own_output(const TensorSpec& spec, at::Tensor tensor, int64_t rows, c10::Device device);

}  // namespace sconce
