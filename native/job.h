// A unit of work for the thread of a session.
#pragma once

#include <ATen/core/Tensor.h>
#include <node_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batch.h"
#include "call_value.h"
#include "error.h"

namespace sconce {

class Session;

/** A job and its result. Only the JS thread uses `promise`. */
struct Job {
  enum class Kind { open, run, call, read, set_threads, close };

  explicit Job(Kind of) : kind(of) {}

  Kind kind;
  napi_deferred promise = nullptr;  // null if JS does not wait for the job
  std::shared_ptr<Session> session;
  Batch batch;
  /** Inputs on a GPU, held until all work that reads them has finished. For a `read` job, the tensor to read. */
  std::vector<at::Tensor> sent;
  int threads = 0;
  /** Outputs on the session's device; in host memory after `StreamTransport::deliver`. */
  std::vector<at::Tensor> outputs;
  std::string method;
  std::vector<Value> arguments;
  Value result;
  std::optional<CodedError> error;
};

/** Receives each finished job once, on one of the session's threads. */
using Done = std::function<void(std::unique_ptr<Job>)>;

}  // namespace sconce
