// A unit of work for a session's thread.
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

/** `promise` is for the JS thread only. */
struct Job {
  enum class Kind { open, run, call, read, set_threads, close };

  explicit Job(Kind of) : kind(of) {}

  Kind kind;
  napi_deferred promise = nullptr;  // null if no one waits
  std::shared_ptr<Session> session;
  Batch batch;
  /** Inputs on a device other than the CPU, held until all work that reads them has finished. `read` copies the only one. */
  std::vector<at::Tensor> sent;
  int threads = 0;
  /** On the session's device, later in host memory: see Transport. */
  std::vector<at::Tensor> outputs;
  std::string method;
  std::vector<Value> arguments;
  Value result;
  std::optional<CodedError> error;
};

/** Receives finished jobs; called once per job on one of the session's threads. */
using Done = std::function<void(std::unique_ptr<Job>)>;

}  // namespace sconce
