#include "batch.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "error.h"

namespace sconce {
namespace {

constexpr size_t kMinBufferBytes = 4096;
/** Numbers in `meta` before the sizes of a tensor: dtype, rank, offset, number of elements. */
constexpr std::ptrdiff_t kHeadLength = 4;

/** src/engine/item-check.ts has checked the items before, with messages that say what differs. */
[[noreturn]] void refuse(int64_t item, const TensorSpec& spec) {
  throw CodedError("tensor_invalid", "item " + std::to_string(item) + ", input \"" + spec.name + "\": not the declared " + spec.text);
}

void fill(char* to, int64_t count, const char* element, size_t bytes) {
  if (std::all_of(element, element + bytes, [](char byte) { return byte == 0; })) {
    std::memset(to, 0, count * bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, element, bytes);
}

/**
 * Copies a row-major block of sizes `from` into the corner of a larger block of sizes `to`. Fills the rest with each
 * dimension's fill value.
 */
struct PaddedCopy {
  size_t bytes;
  const double* from;
  const int64_t* to;
  const std::vector<Dim>& dims;

  void copy(size_t dim, const char*& source, char*& target) const {
    if (dim == dims.size()) {
      std::memcpy(target, source, bytes);
      source += bytes;
      target += bytes;
      return;
    }
    const auto given = static_cast<int64_t>(from[dim]);
    int64_t inner = 1;
    bool whole = true;
    for (size_t i = dim + 1; i < dims.size(); ++i) {
      inner *= to[i];
      whole = whole && static_cast<int64_t>(from[i]) == to[i];
    }
    if (whole) {
      const size_t block = given * inner * bytes;
      if (block > 0) std::memcpy(target, source, block);
      source += block;
      target += block;
    } else {
      for (int64_t i = 0; i < given; ++i) copy(dim + 1, source, target);
    }
    const int64_t rest = (to[dim] - given) * inner;
    if (rest > 0) fill(target, rest, dims[dim].fill.data(), bytes);
    target += rest * bytes;
  }
};

}  // namespace

at::Tensor HostTensor::tensor() const {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

c10::DataPtr BufferPool::pageable_memory(size_t bytes) { return c10::GetCPUAllocator()->allocate(bytes); }

void BufferPool::use_pinned_memory() {
  // The allocator reuses freed memory only after pending copies have finished.
  allocate_ = [](size_t bytes) { return at::globalContext().getPinnedMemoryAllocator(c10::DeviceType::CUDA)->allocate(bytes); };
}

c10::Storage BufferPool::take(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [bytes](const c10::Storage& storage) {
      return storage.nbytes() >= bytes && storage.nbytes() <= 4 * bytes + kMinBufferBytes;
    };
    const auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found != free_.end()) {
      c10::Storage storage = std::move(*found);
      free_.erase(found);
      bytes_ -= storage.nbytes();
      return storage;
    }
  }
  const size_t capacity = std::max(bytes, kMinBufferBytes);
  return c10::Storage(c10::Storage::use_byte_size_t(), capacity, allocate_(capacity), nullptr, false);
}

void BufferPool::give(c10::Storage&& storage) {
  if (!storage || storage.use_count() != 1) return;
  // use_count() is a relaxed read. The next user of the buffer must come after the thread that dropped its reference.
  std::atomic_thread_fence(std::memory_order_acquire);
  const size_t bytes = storage.nbytes();
  if (bytes > kMaxBytes) return;
  const std::lock_guard lock(mutex_);
  while (free_.size() == kMaxBuffers || bytes_ + bytes > kMaxBytes) {
    bytes_ -= free_.front().nbytes();
    free_.erase(free_.begin());
  }
  bytes_ += bytes;
  free_.push_back(std::move(storage));
}

void BufferPool::clear() {
  const std::lock_guard lock(mutex_);
  free_.clear();
  bytes_ = 0;
}

Stacker::Stacker(std::vector<TensorSpec> specs) : specs_(std::move(specs)) {
  for (const auto& spec : specs_) {
    for (const auto& dim : spec.dims) symbols_ = std::max(symbols_, dim.symbol + 1);
  }
  item_sizes_.resize(symbols_);
}

Batch Stacker::stack(napi_env env, int64_t rows, const PackedBatch& packed, const Allocate& allocate) {
  if (rows < 1) throw CodedError("tensor_invalid", "a batch needs at least one item");
  read(env, rows, packed);
  Batch batch;
  batch.rows = rows;
  batch.inputs.reserve(specs_.size());
  for (size_t i = 0; i < specs_.size(); ++i) batch.inputs.push_back(stack_input(i, rows, allocate));
  return batch;
}

void Stacker::read(napi_env env, int64_t rows, const PackedBatch& packed) {
  const double* meta = packed.meta;
  const double* const end = meta + packed.meta_length;
  sources_.clear();
  batch_sizes_.assign(symbols_, -1);
  uint32_t index = 0;
  for (int64_t item = 0; item < rows; ++item) {
    std::fill(item_sizes_.begin(), item_sizes_.end(), -1);
    for (const auto& spec : specs_) {
      // Comparisons with NaN are false, so NaN is refused too.
      const bool complete = end - meta >= kHeadLength && meta[0] == spec.dtype && meta[1] == static_cast<double>(spec.dims.size()) &&
                            meta[1] <= static_cast<double>(end - meta - kHeadLength) && is_size(meta[3]);
      if (!complete) refuse(item, spec);
      const double place = meta[2];
      Source source{nullptr, static_cast<size_t>(meta[3]), meta + kHeadLength};
      meta += kHeadLength + spec.dims.size();
      if (place >= 0) {
        const double last = place + static_cast<double>(source.elements * spec.info().bytes);
        if (!(last <= static_cast<double>(packed.bytes_length))) refuse(item, spec);
        source.data = packed.bytes + static_cast<size_t>(place);
      } else {
        napi_value array;
        napi_typedarray_type type;
        void* bytes;
        const bool is_array = napi_get_element(env, packed.data, index++, &array) == napi_ok &&
                              napi_get_typedarray_info(env, array, &type, &source.elements, &bytes, nullptr, nullptr) == napi_ok;
        if (!is_array || type != spec.info().array) refuse(item, spec);
        source.data = static_cast<const char*>(bytes);
      }
      if (!fits(spec, source)) refuse(item, spec);
      sources_.push_back(source);
    }
    for (int i = 0; i < symbols_; ++i) batch_sizes_[i] = std::max(batch_sizes_[i], item_sizes_[i]);
  }
}

bool Stacker::fits(const TensorSpec& spec, const Source& source) {
  int64_t elements = 1;
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    const Dim& dim = spec.dims[i];
    const auto size = static_cast<int64_t>(is_size(source.sizes[i]) ? source.sizes[i] : -1);
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return false;
    if (dim.symbol < 0) {
      if (size != dim.size) return false;
      continue;
    }
    auto& seen = item_sizes_[dim.symbol];
    // Items of a batch have equal sizes, except in padded dimensions.
    const auto batch = dim.padded ? -1 : batch_sizes_[dim.symbol];
    if ((seen >= 0 && seen != size) || (batch >= 0 && batch != size)) return false;
    seen = size;
  }
  return static_cast<size_t>(elements) == source.elements;
}

HostTensor Stacker::stack_input(size_t index, int64_t rows, const Allocate& allocate) const {
  const TensorSpec& spec = specs_[index];
  HostTensor input;
  input.type = spec.info().scalar;
  input.shape.reserve(spec.dims.size() + 1);
  input.shape.push_back(rows);
  int64_t row_bytes = static_cast<int64_t>(spec.info().bytes);
  int64_t bytes = 0;
  bool too_large = false;
  for (const auto& dim : spec.dims) {
    input.shape.push_back(dim.symbol < 0 ? dim.size : batch_sizes_[dim.symbol]);
    too_large = too_large || __builtin_mul_overflow(row_bytes, input.shape.back(), &row_bytes);
  }
  if (too_large || __builtin_mul_overflow(row_bytes, rows, &bytes)) {
    throw CodedError("out_of_memory", "input \"" + spec.name + "\": the padded batch has too many elements");
  }
  input.storage = allocate(static_cast<size_t>(bytes));
  char* target = static_cast<char*>(input.storage.mutable_data());
  for (int64_t item = 0; item < rows; ++item) {
    const Source& source = sources_[item * specs_.size() + index];
    const size_t given = source.elements * spec.info().bytes;
    if (given == static_cast<size_t>(row_bytes)) {
      if (given > 0) std::memcpy(target, source.data, given);
      target += given;
    } else {
      const char* from = source.data;
      PaddedCopy{spec.info().bytes, source.sizes, input.shape.data() + 1, spec.dims}.copy(0, from, target);
    }
  }
  return input;
}

}  // namespace sconce
