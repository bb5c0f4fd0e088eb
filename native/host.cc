#include "host.h"

#include <utility>

#include "values.h"

namespace sconce {

std::shared_ptr<Host> Host::create(napi_env env) {
  auto host = std::make_shared<Host>(env);
  host->connect();
  return host;
}

Host::~Host() { close_all(); }

void Host::connect() {
  napi_value name;
  check(napi_create_string_utf8(env_, "sconce", NAPI_AUTO_LENGTH, &name));
  // The threadsafe function may call the host as long as it exists, so it keeps the host alive.
  auto context = std::make_unique<std::shared_ptr<Host>>(shared_from_this());
  const auto forget = [](napi_env, void* data, void*) {
    const std::unique_ptr<std::shared_ptr<Host>> owned(static_cast<std::shared_ptr<Host>*>(data));
  };
  check(napi_create_threadsafe_function(env_, nullptr, nullptr, name, 0, 1, context.get(), forget, context.get(),
                                        on_wake, &wake_));
  context.release();
  // An idle session must not keep the process alive. A pending job does.
  check(napi_unref_threadsafe_function(env_, wake_));
  check(napi_add_env_cleanup_hook(env_, [](void* host) { static_cast<Host*>(host)->close_all(); }, this));
}

napi_value Host::promise_for(Job& job) {
  napi_value promise;
  check(napi_create_promise(env_, &job.promise, &promise));
  return promise;
}

napi_value Host::open(SessionOptions options) {
  if (left_) throw CodedError("session_closed", "the process is leaving");
  auto job = std::make_unique<Job>(Job::Kind::open);
  const napi_value promise = promise_for(*job);
  auto session = std::make_shared<Session>(std::move(options),
                                           [this](std::unique_ptr<Job> done) { finished(std::move(done)); });
  job->session = session;
  session->start(std::move(job));
  sessions_.insert(session);
  hold();
  return promise;
}

napi_value Host::submit(std::unique_ptr<Job> job) {
  const napi_value promise = promise_for(*job);
  // The session stays in sessions_ until its thread has ended, so the reference is valid.
  Session& session = *job->session;
  session.submit(std::move(job));
  hold();
  return promise;
}

napi_value Host::close(const std::shared_ptr<Session>& session, bool is_awaited) {
  auto job = std::make_unique<Job>(Job::Kind::close);
  job->session = session;
  const napi_value promise = is_awaited ? promise_for(*job) : nullptr;
  if (sessions_.count(session) == 0) {  // the session has ended, or the process is exiting
    if (is_awaited) resolve(*job);
    return promise;
  }
  Job* const last = job.get();
  hold();
  auto left = session->close(std::move(job));
  for (auto& queued : left) {
    if (queued.get() == last) {  // the session was closed twice: the first close waits for its thread
      release();
      if (is_awaited) resolve(*last);
    } else {
      queued->error = CodedError("session_closed", "the session was disposed of before this batch ran");
      settle(*queued);
    }
  }
  return promise;
}

void Host::close_all() {
  left_ = true;
  for (const auto& session : sessions_) session->close(nullptr);
  for (const auto& session : sessions_) session->join();
  sessions_.clear();
  const std::lock_guard lock(mutex_);
  finished_.clear();
}

void Host::finished(std::unique_ptr<Job> job) {
  bool first;
  {
    const std::lock_guard lock(mutex_);
    first = finished_.empty();
    finished_.push_back(std::move(job));
  }
  // The call has no data, because Bun may drop queued data at exit.
  if (first) napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
}

void Host::on_wake(napi_env env, napi_value, void* context, void*) {
  if (env != nullptr) (*static_cast<std::shared_ptr<Host>*>(context))->settle_finished();
}

void Host::settle_finished() {
  if (left_) return;
  {
    const std::lock_guard lock(mutex_);
    settling_.swap(finished_);
  }
  for (auto& job : settling_) settle(*job);
  settling_.clear();
}

void Host::settle(Job& job) {
  release();
  try {
    if (job.kind == Job::Kind::open && job.error) job.session->close(nullptr);
    if (job.kind == Job::Kind::close || (job.kind == Job::Kind::open && job.error)) {
      job.session->join();  // returns soon, because the thread has no work left
      sessions_.erase(job.session);
    }
    if (job.promise == nullptr) return;
    const Napi::HandleScope scope(env_);
    if (!job.error) {
      try {
        resolve(job);
        return;
      } catch (...) {
        job.error = current_error("run_failed");
      }
    }
    napi_deferred promise = std::exchange(job.promise, nullptr);
    napi_reject_deferred(env_, promise, error_to_js(env_, *job.error));
  } catch (...) {
    // The environment is ending, so no JS code waits for the promise.
  }
}

void Host::resolve(Job& job) {
  napi_value value;
  switch (job.kind) {
    case Job::Kind::open: value = session_to_js(env_, shared_from_this(), job.session); break;
    case Job::Kind::run: value = outputs_to_js(env_, job); break;
    case Job::Kind::call: value = value_to_js(env_, job.result, job.session->stream()); break;
    case Job::Kind::read: value = elements_to_js(env_, job.outputs.at(0)); break;
    default: check(napi_get_undefined(env_, &value));
  }
  napi_deferred promise = std::exchange(job.promise, nullptr);
  check(napi_resolve_deferred(env_, promise, value));
}

void Host::hold() {
  if (pending_++ == 0) napi_ref_threadsafe_function(env_, wake_);
}

void Host::release() {
  if (--pending_ == 0) napi_unref_threadsafe_function(env_, wake_);
}

}  // namespace sconce
