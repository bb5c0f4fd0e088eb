// Stacks the tensors of several items into one tensor for each input.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <node_api.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "tensor.h"

namespace sconce {

/** A tensor of a whole batch in host memory. `shape` begins with the number of items. */
struct HostTensor {
  c10::Storage storage;
  std::vector<int64_t> shape;
  c10::ScalarType type;

  at::Tensor tensor() const;
};

struct Batch {
  int64_t rows = 0;
  std::vector<HostTensor> inputs;
};

/**
 * Keeps the memory of past batches for later ones, because the first write to fresh pages costs more than the copy.
 * Limited by count and bytes. Thread-safe.
 */
class BufferPool {
 public:
  /** Makes all buffers pinned memory, which a GPU can copy from directly. Call this before `take`. */
  void use_pinned_memory();
  c10::Storage take(size_t bytes);
  /**
   * Takes back a buffer. A buffer above `kMaxBytes`, or with other references, such as an input kept by weights, is not
   * reused.
   */
  void give(c10::Storage&& storage);
  void clear();

 private:
  static c10::DataPtr pageable_memory(size_t bytes);
  static constexpr size_t kMaxBuffers = 8;
  static constexpr size_t kMaxBytes = size_t{256} << 20;
  c10::DataPtr (*allocate_)(size_t bytes) = pageable_memory;
  std::mutex mutex_;
  std::vector<c10::Storage> free_;  // oldest buffer first
  size_t bytes_ = 0;                // bytes of free_
};

/** Tensors of a batch as they come from JS, item after item. Valid until control returns to JS. */
struct PackedBatch {
  /** For each tensor: dtype code, rank, offset in `bytes` (-1 for a tensor in `data`), number of elements, sizes. */
  const double* meta;
  size_t meta_length;
  /** Elements of tensors that are small enough to be packed. */
  const char* bytes;
  size_t bytes_length;
  /** JS array of typed arrays with the elements of the large tensors. */
  napi_value data;
};

/** Allocates at least `bytes` bytes for a stacked input. Called once for each input, in order. */
using Allocate = std::function<c10::Storage(size_t bytes)>;

/** Reads the tensors of items from JS values, and stacks them. Only for the JS thread. */
class Stacker {
 public:
  explicit Stacker(std::vector<TensorSpec> specs);

  /**
   * Stacks `rows` items, each with one tensor for every declared input. Throws `tensor_invalid` with the item and the
   * input, which keeps memory safe.
   */
  Batch stack(napi_env env, int64_t rows, const PackedBatch& packed, const Allocate& allocate);

  const std::vector<TensorSpec>& specs() const { return specs_; }

 private:
  /** A tensor of one item in JS memory; valid until control returns to JS. */
  struct Source {
    const char* data;
    size_t elements;
    const double* sizes;
  };

  void read(napi_env env, int64_t rows, const PackedBatch& packed);
  /** Whether the sizes are the declared ones, agree within the item and the batch, and give the number of elements. */
  bool fits(const TensorSpec& spec, const Source& source);
  HostTensor stack_input(size_t index, int64_t rows, const Allocate& allocate) const;

  std::vector<TensorSpec> specs_;
  int symbols_ = 0;
  // Members, so that batches reuse their memory.
  std::vector<Source> sources_;
  std::vector<int64_t> batch_sizes_;  // largest size of each named dimension so far; -1 before the first item
  std::vector<int64_t> item_sizes_;   // size of each named dimension in the current item; -1 before it is read
};

}  // namespace sconce
