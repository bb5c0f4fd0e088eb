// The way of batches to a session's device and back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <memory>
#include <vector>

#include "job.h"

namespace sconce {

/**
 * On the CPU nothing is transferred, and a job ends when its forward pass returns. Another device works on its own: a job is
 * under way until its outputs are in host memory, and meanwhile the thread may start the next batch.
 *
 * Used on the session's thread. Its end waits for all that is under way.
 */
class Transport {
 public:
  virtual ~Transport() = default;
  /** How many batches may be under way at once. */
  virtual size_t depth() const = 0;
  /** The batch's inputs on the device. Its memory is the job's until the job has been delivered. */
  virtual std::vector<at::Tensor> send(Job& job) = 0;
  /** Sees that the job ends, in order: `done` is called once its outputs, if any, are in host memory, or with its error. */
  virtual void deliver(std::unique_ptr<Job> job) noexcept = 0;
};

/** For sessions on the CPU. */
std::unique_ptr<Transport> direct_transport(BufferPool& pool, Done done);

/** For sessions on a device with streams: forward passes go on `compute`. Batches must lie in pinned memory. */
std::unique_ptr<Transport> stream_transport(c10::Stream compute, BufferPool& pool, Done done);

}  // namespace sconce
