// Moves batches to a session's device and back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <memory>
#include <vector>

#include "job.h"

namespace sconce {

/**
 * On the CPU nothing is copied, and a job ends when its forward pass returns. Other devices work asynchronously: a job
 * ends when its outputs are in host memory, and meanwhile the thread may start the next batch. For the session's thread
 * only. The destructor waits for all pending jobs.
 */
class Transport {
 public:
  virtual ~Transport() = default;
  /** Maximum number of pending batches. */
  virtual size_t depth() const = 0;
  /** Copies the batch's inputs to the device. Their memory belongs to the job until the job is delivered. */
  virtual std::vector<at::Tensor> send(Job& job) = 0;
  /** Ends the job, in order: calls `done` once its outputs are in host memory, or with its error. */
  virtual void deliver(std::unique_ptr<Job> job) noexcept = 0;
};

/** For sessions on the CPU. */
std::unique_ptr<Transport> direct_transport(BufferPool& pool, Done done);

/** For sessions on a device with streams; forward passes run on `compute`. Batches must be in pinned memory. */
std::unique_ptr<Transport> stream_transport(c10::Stream compute, BufferPool& pool, Done done);

}  // namespace sconce
