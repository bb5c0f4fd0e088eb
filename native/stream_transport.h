// Copies inputs of batches to a GPU, and outputs back. Copies of one batch overlap with the computation of another.
#pragma once

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "device.h"
#include "job.h"

namespace sconce {
/**
 * Moves tensors of batches to a GPU and back. The next batch may start before the outputs of the last are in host
 * memory. Only for the session's thread. The destructor waits for all pending jobs.
 */
class StreamTransport {
 public:
  /** Batches on the device: one is computed and one waits. */
  static constexpr size_t kDepth = 2;

  /** The transport of a session. Forward passes run on the stream `compute`; batches must be in pinned memory. */
  StreamTransport(c10::Stream compute, BufferPool& pool, Done done)
      : compute_(compute),
        in_(take_stream(compute.device())),
        out_(take_stream(compute.device())),
        pool_(pool),
        done_(std::move(done)),
        copied_(compute.device_type()),
        computed_(compute.device_type()),
        finisher_([this] { finish_all(); }) {}

  ~StreamTransport() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    finisher_.join();
  }

  /**
   * Returns the batch's inputs on the device. The host memory of the inputs belongs to the job until the job is
   * delivered.
   */
  std::vector<at::Tensor> send(Job& job) {
    wait_for_room();
    const auto options = at::TensorOptions().device(compute_.device());
    {
      // The job holds the inputs until the compute stream has read them, because the allocator only knows the stream
      // that allocated them.
      const c10::StreamGuard guard(in_);
      for (const auto& input : job.batch.inputs) job.sent.push_back(input.tensor().to(options, /*non_blocking=*/true));
    }
    copied_.record(in_);
    copied_.block(compute_);
    return job.sent;
  }

  /** Finishes jobs in order: calls `done` once the outputs are in host memory, or with an error. */
  void deliver(std::unique_ptr<Job> job) noexcept {
    Started started;
    started.job = std::move(job);
    const auto kind = started.job->kind;
    if (kind == Job::Kind::run || kind == Job::Kind::call) start_return(started);
    {
      const std::lock_guard lock(mutex_);
      started_.push_back(std::move(started));
    }
    changed_.notify_all();
  }

 private:
  /** A job whose work on the device has begun. */
  struct Started {
    std::unique_ptr<Job> job;
    /** Pinned memory into which the outputs are being copied. */
    std::vector<HostTensor> arriving;
    std::optional<c10::Event> arrived;
  };

  void wait_for_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return started_.size() < kDepth; });
  }

  /**
   * Starts the copy of the outputs to the host, and records an event after it. A failed job gets the event too, because
   * its work may still use its memory.
   */
  void start_return(Started& started) noexcept {
    Job& job = *started.job;
    try {
      computed_.record(compute_);
      computed_.block(out_);
      keep_shared(job.sent);
      copy_outputs(job.outputs, started.arriving);
    } catch (...) {
      fail(job);
    }
    try {
      c10::Event arrived(compute_.device_type());
      arrived.record(out_);
      started.arrived = std::move(arrived);
    } catch (...) {
      fail(job);
    }
  }

  /** Tells the allocator that the compute stream uses inputs that weights have kept beyond the job. */
  void keep_shared(const std::vector<at::Tensor>& inputs) const {
    const c10::impl::VirtualGuardImpl device(compute_.device_type());
    for (const auto& input : inputs) {
      if (is_shared(input)) device.recordDataPtrOnStream(input.storage().data_ptr(), compute_);
    }
  }

  void copy_outputs(const std::vector<at::Tensor>& outputs, std::vector<HostTensor>& arriving) {
    const c10::InferenceMode inference;
    const c10::StreamGuard guard(out_);
    for (const auto& output : outputs) {
      arriving.push_back({pool_.take(output.nbytes()), output.sizes().vec(), output.scalar_type()});
      arriving.back().tensor().copy_(output, /*non_blocking=*/true);
    }
  }

  void finish_all() {
    const DeviceScope scope(compute_, std::nothrow);
    while (true) {
      Started* started = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closing_ || !started_.empty(); });
        if (started_.empty()) return;
        started = &started_.front();  // stays valid while jobs are appended
      }
      auto job = finish(*started);
      {
        const std::lock_guard lock(mutex_);
        started_.pop_front();
      }
      changed_.notify_all();
      done_(std::move(job));
    }
  }

  std::unique_ptr<Job> finish(Started& started) noexcept {
    Job& job = *started.job;
    try {
      if (started.arrived) take_outputs(started);
    } catch (...) {
      fail(job);
    }
    job.sent.clear();
    return std::move(started.job);
  }

  void take_outputs(Started& started) {
    Job& job = *started.job;
    // A fault of the device throws here. Then the buffers are not reused, because the device may still write to them.
    started.arrived->synchronize();
    if (!job.error) {
      for (size_t i = 0; i < job.outputs.size(); ++i) job.outputs[i] = copy_of(started.arriving[i]);
    }
    for (auto& input : job.batch.inputs) pool_.give(std::move(input.storage));
    for (auto& host : started.arriving) pool_.give(std::move(host.storage));
  }

  /** Copies an output out of pinned memory: pinned memory is scarce, and JS may keep the output for long. */
  static at::Tensor copy_of(const HostTensor& host) {
    auto tensor = at::empty(host.shape, at::TensorOptions().dtype(host.type));
    if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), host.storage.data(), tensor.nbytes());
    return tensor;
  }

  /** Drops the job's outputs, and records the current exception as its error, unless it already has one. */
  static void fail(Job& job) noexcept {
    job.outputs.clear();
    job.result = {};
    if (!job.error) job.error = current_error("run_failed");
  }

  const c10::Stream compute_;
  const c10::Stream in_;
  const c10::Stream out_;
  BufferPool& pool_;
  const Done done_;
  c10::Event copied_;
  c10::Event computed_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Started> started_;  // oldest first
  bool closing_ = false;
  std::thread finisher_;  // last, because the thread uses the other members
};

}  // namespace sconce
