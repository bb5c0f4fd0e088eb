// The stacked inputs of one batch in memory of the addon's own.
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

/** One tensor of a whole batch in a pool's memory: contiguous; `shape` begins with the number of items. */
struct HostTensor {
  c10::Storage storage;
  std::vector<int64_t> shape;
  c10::ScalarType type;

  /** A tensor over the storage; cheap, nothing is copied. */
  at::Tensor tensor() const;
};

struct Batch {
  int64_t rows = 0;
  /** Padded. */
  std::vector<HostTensor> inputs;
};

/**
 * Keeps the memory of past batches for the next ones: fresh pages cost more than the copy into them.
 * It is bounded in bytes too, as a few large batches would hold much of it for a while. The bound has room
 * for the batch that runs and the one committed ahead, each of 64 pictures of 3 × 400 × 400 float32 (117 MiB);
 * a larger batch gets fresh pages each time. Any thread may call it.
 */
class BufferPool {
 public:
  /** From now on buffers are pinned: the device reads and writes them by itself. Comes before all else. */
  void use_pinned_memory();
  c10::Storage take(size_t bytes);
  /** Takes a buffer back, unless someone (weights that keep their input, say) still refers to it. */
  void give(c10::Storage&& storage);
  void clear();

 private:
  static c10::DataPtr pageable_memory(size_t bytes);
  static constexpr size_t kMaxBuffers = 8;
  static constexpr size_t kMaxBytes = size_t{256} << 20;
  c10::DataPtr (*allocate_)(size_t bytes) = pageable_memory;
  std::mutex mutex_;
  std::vector<c10::Storage> free_;  // the one given back longest ago first
  size_t bytes_ = 0;                // of free_
};

/** The tensors of a batch as JS hands them over, item after item; valid until control goes back to JS. */
struct PackedBatch {
  /** Of each tensor: its dtype's code, its rank, where it begins in `bytes` (or -1), its count of elements, its sizes. */
  const double* meta;
  size_t meta_length;
  /** Small tensors. */
  const char* bytes;
  size_t bytes_length;
  /** An array of typed arrays: the tensors that are not in `bytes`. */
  napi_value data;
};

/** Gives the memory of a stacked input, of at least so many bytes; asked once for each input, in order. */
using Allocate = std::function<c10::Storage(size_t bytes)>;

/** Reads items off JS values and stacks them. Used on the JS thread only. */
class Stacker {
 public:
  explicit Stacker(std::vector<TensorSpec> specs);

  /**
   * Copies `rows` items, of which each has a tensor for each declared name, in their order.
   * Throws `tensor_invalid`, naming item, input, and what was expected and given.
   */
  Batch stack(napi_env env, int64_t rows, const PackedBatch& packed, const Allocate& allocate);

  const std::vector<TensorSpec>& specs() const { return specs_; }

 private:
  /** One tensor of one item, as JS holds it; valid until control goes back to JS. */
  struct Source {
    const char* data;
    size_t elements;
    const double* sizes;
  };

  void read(napi_env env, int64_t rows, const PackedBatch& packed);
  void read_array(napi_env env, napi_value array, int64_t item, const TensorSpec& spec, Source& source);
  void check_shape(int64_t item, const TensorSpec& spec, const Source& source, size_t rank);
  HostTensor stack_input(size_t index, int64_t rows, const Allocate& allocate) const;

  std::vector<TensorSpec> specs_;
  std::vector<std::vector<std::array<char, 8>>> fills_;
  int symbols_;
  // Scratch of one call; kept, so that a batch costs no allocation.
  std::vector<Source> sources_;
  std::vector<int64_t> batch_sizes_;  // by symbol: the size of the batch so far, -1 before the first item
  std::vector<int64_t> item_sizes_;   // by symbol: the size in the item at hand
};

}  // namespace sconce
