// What the addon keeps for one JS environment: its sessions, and the one way on which finished jobs come back to JS.
#pragma once

#include <node_api.h>

#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "session.h"

namespace sconce {

/** All methods are for the JS thread, except `finished`. */
class Host : public std::enable_shared_from_this<Host> {
 public:
  /** The host of an environment, made at the first call; it is kept until the environment ends. */
  static std::shared_ptr<Host> create(napi_env env);
  explicit Host(napi_env env) : env_(env) {}
  ~Host();

  /** A promise for the job, which is settled once, when the job has come back. */
  napi_value promise_for(Job& job);
  /** A promise of a session. */
  napi_value open(SessionOptions options);
  /** A promise of what the job's session makes of it. */
  napi_value submit(std::unique_ptr<Job> job);
  /** Rejects what is queued with `session_closed`; `job` comes back once the weights are freed. */
  void close(std::unique_ptr<Job> job);
  /** Closes every session and waits for their threads: nothing of libtorch may run while the process leaves. */
  void close_all();

  /** Settles the promises of the jobs that have come back, without waiting for the event loop to turn. */
  void settle_finished();

  /** Called on sessions' threads. */
  void finished(std::unique_ptr<Job> job);

 private:
  void connect();
  static void on_wake(napi_env env, napi_value callback, void* context, void* data);
  void settle(Job& job);
  void resolve(Job& job);
  void hold();
  void release();

  napi_env env_;
  napi_threadsafe_function wake_ = nullptr;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
  size_t pending_ = 0;
  bool left_ = false;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Job>> finished_;
  std::vector<std::unique_ptr<Job>> settling_;
};

}  // namespace sconce
