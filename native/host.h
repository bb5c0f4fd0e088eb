// The addon's state for one JS environment: its sessions, and finished jobs whose promises JS awaits.
#pragma once

#include <node_api.h>

#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "session.h"

namespace sconce {

/** Owns the sessions of a JS environment. Only for the JS thread, except `finished`. */
class Host : public std::enable_shared_from_this<Host> {
 public:
  /** Creates the host of an environment. The host exists until the environment ends. */
  static std::shared_ptr<Host> create(napi_env env);
  explicit Host(napi_env env) : env_(env) {}
  ~Host();

  napi_value open(SessionOptions options);
  napi_value submit(std::unique_ptr<Job> job);
  /**
   * Closes a session: rejects queued jobs with `session_closed`. Returns a promise that resolves once the session has
   * freed its weights; null unless `is_awaited`.
   */
  napi_value close(const std::shared_ptr<Session>& session, bool is_awaited);
  /** Closes every session, and waits for their threads: libtorch must not run while the process exits. */
  void close_all();

  /** Settles the promises of finished jobs now, without waiting for the event loop. */
  void settle_finished();

  /** Receives a finished job; called on the thread of a session. */
  void finished(std::unique_ptr<Job> job);

 private:
  void connect();
  /** Creates the promise of a job. The promise is settled once, when the job has finished. */
  napi_value promise_for(Job& job);
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
