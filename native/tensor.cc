#include "tensor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "error.h"

namespace sconce {
namespace {

template <size_t... I>
constexpr bool sizes_match(std::index_sequence<I...>) {
  return ((sizeof(c10::impl::ScalarTypeToCPPTypeT<kDTypes[I].scalar>) == kDTypes[I].bytes) && ...);
}
static_assert(sizes_match(std::make_index_sequence<kDTypes.size()>()),
              "an element of a typed array and of its tensor must have the same size");
static_assert(kDTypes.size() <= std::numeric_limits<uint8_t>::max(), "codes of dtypes are kept in one byte");

}  // namespace

std::string tensor_text(c10::ScalarType type, c10::IntArrayRef sizes) {
  const DTypeInfo* const known = info_of(type);
  std::vector<std::string> texts;
  for (const int64_t size : sizes) texts.push_back(std::to_string(size));
  return (known ? known->name : c10::toString(type)) + names_text(texts);
}

const DTypeInfo* info_of(c10::ScalarType type) {
  const auto found = std::find_if(kDTypes.begin(), kDTypes.end(), [type](const auto& info) { return info.scalar == type; });
  return found == kDTypes.end() ? nullptr : &*found;
}

std::string names_text(const std::vector<std::string>& names) {
  std::string out = "(";
  for (size_t i = 0; i < names.size(); ++i) out += (i > 0 ? ", " : "") + names[i];
  return out + ')';
}

bool is_shared(const at::Tensor& tensor) {
  const bool shared = tensor.use_count() > 1 || tensor.storage().use_count() > 1;
  // use_count() is a relaxed read. Writes to the memory must come after the thread that dropped its reference.
  std::atomic_thread_fence(std::memory_order_acquire);
  return shared;
}

bool owns_memory(const at::Tensor& tensor) {
  if (is_shared(tensor) || tensor.storage_offset() != 0) return false;
  const auto& storage = tensor.storage();
  // Memory without a context belongs to another owner, such as the constants of a compiled package.
  return storage.data_ptr().get_context() != nullptr && storage.nbytes() <= 2 * tensor.nbytes();
}

void require_plain(const at::Tensor& tensor, const std::string& giver) {
  if (tensor.layout() == c10::kStrided && !tensor.is_quantized()) return;
  throw CodedError("weights_invalid", giver + " gave a tensor that is sparse or quantized");
}

at::Tensor own_output(const TensorSpec& spec, at::Tensor tensor, int64_t rows, c10::Device device) {
  const std::string label = "output \"" + spec.name + "\": ";
  if (!tensor.defined()) throw CodedError("weights_invalid", label + "the weights gave None");
  require_plain(tensor, label + "the weights");
  const auto sizes = tensor.sizes();
  if (sizes.empty()) {
    throw CodedError("weights_invalid",
                     label + "the weights gave one number for the whole batch; its first dimension must be the batch");
  }
  const auto row = sizes.slice(1);
  bool fits = tensor.scalar_type() == spec.info().scalar && row.size() == spec.dims.size();
  for (size_t i = 0; fits && i < row.size(); ++i) fits = spec.dims[i].symbol >= 0 || spec.dims[i].size == row[i];
  if (!fits) {
    throw CodedError("weights_invalid", label + spec.text + " was declared, the weights gave " +
                                            tensor_text(tensor.scalar_type(), row));
  }
  if (sizes[0] != rows) {
    throw CodedError("weights_invalid", label + "the weights gave " + std::to_string(sizes[0]) +
                                            (sizes[0] == 1 ? " row" : " rows") + " for a batch of " +
                                            std::to_string(rows));
  }
  // A negated or conjugated view has other values in memory until it is resolved.
  tensor = tensor.resolve_neg().contiguous();
  if (tensor.device() != device) tensor = tensor.to(device);
  return is_shared(tensor) ? tensor.clone(at::MemoryFormat::Contiguous) : tensor;
}

}  // namespace sconce
