// Copies inputs of batches to a GPU, and outputs back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <memory>
#include <vector>

#include "job.h"

namespace sconce {

/**
 * Moves tensors of batches to a GPU and back. The next batch may start before the outputs of the last are in host
 * memory. Only for the session's thread. The destructor waits for all pending jobs.
 */
class Transport {
 public:
  virtual ~Transport() = default;
  /** Maximum jobs that may be on the device at a time. */
  virtual size_t depth() const = 0;
  /**
   * Returns the batch's inputs on the device. The host memory of the inputs belongs to the job until the job is
   * delivered.
   */
  virtual std::vector<at::Tensor> send(Job& job) = 0;
  /** Finishes jobs in order: calls `done` once the outputs are in host memory, or with an error. */
  virtual void deliver(std::unique_ptr<Job> job) noexcept = 0;
};

/** Creates the transport of a session on a GPU. Forward passes run on the stream `compute`; batches must be in pinned memory. */
std::unique_ptr<Transport> stream_transport(c10::Stream compute, BufferPool& pool, Done done);

}  // namespace sconce
