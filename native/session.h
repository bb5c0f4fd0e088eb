// A session: weights on a device, and the thread that loads, runs and frees them.
#pragma once

#include <c10/core/Stream.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "batch.h"
#include "job.h"
#include "tensor.h"
#include "weights.h"

#ifdef __GLIBCXX__
// GCC 12 added a second version of std::condition_variable::wait, which the libstdc++ of RHEL 9 lacks. This line
// selects the first version, which is equivalent.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif

namespace sconce {

class StreamTransport;

struct SessionOptions {
  /** The file and its use. The session sets the device and the names. */
  WeightsOptions weights;
  std::string device;
  int threads = 1;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  /** Open session that shares its weights; the file is then not read. */
  std::shared_ptr<Session> share;
  /** Milliseconds without a job after which unused memory is freed. */
  std::chrono::milliseconds keep{0};
};

/** Weights with a thread that runs them. The session calls `done` on its threads. */
class Session {
 public:
  Session(SessionOptions options, Done done);
  ~Session();

  /** Starts the thread. Its first job `open` loads the weights. */
  void start(std::unique_ptr<Job> open);
  /** Queues a job. Throws `session_closed` after `close`. */
  void submit(std::unique_ptr<Job> job);
  /**
   * Ends the session after the running job, frees its weights, and then completes `job`. Weights that another session
   * shares stay. Returns the jobs that have not begun. If the session is already closing, they include `job`.
   */
  std::deque<std::unique_ptr<Job>> close(std::unique_ptr<Job> job);
  /** Waits until the thread has ended; call `close` first. */
  void join();

  Stacker& stacker() { return stacker_; }
  BufferPool& pool() { return pool_; }
  const std::vector<TensorSpec>& outputs() const { return options_.outputs; }
  c10::Stream stream() const { return stream_; }
  /** Throws `session_closed` if the session is closing. */
  void require_open() const;
  std::shared_ptr<Weights> weights() const;

 private:
  void work();
  /** Waits for the next job. Frees the memory of batches if none comes for a time. Returns null once the session is closing. */
  std::unique_ptr<Job> next();
  void let_go_of_memory();
  void perform(Job& job);
  void deliver(std::unique_ptr<Job> job);
  std::vector<at::Tensor> inputs_of(Job& job);
  void drop_tensors(Job& job) noexcept;
  void load();
  void run(Job& job);
  void call(Job& job);

  SessionOptions options_;
  Done done_;
  Stacker stacker_;
  BufferPool pool_;
  /**
   * Stream of all batches of this session; set by `load`. Sessions with equal weights use other streams, so their
   * batches overlap.
   */
  c10::Stream stream_{c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CPU)};
  std::unique_ptr<StreamTransport> transport_;  // null on the CPU, and once the thread has ended

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Job>> queue_;
  std::unique_ptr<Job> closing_job_;
  bool closing_ = false;
  std::shared_ptr<Weights> weights_;  // only the session's thread writes it, with the mutex locked
  std::thread thread_;
};

}  // namespace sconce
