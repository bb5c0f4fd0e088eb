// One piece of work on its way to a session's thread and back.
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

/** The promise is touched on the JS thread only. */
struct Job {
  enum class Kind { open, run, call, set_threads, close };

  explicit Job(Kind of) : kind(of) {}

  Kind kind;
  napi_deferred promise = nullptr;  // none where nobody waits
  std::shared_ptr<Session> session;
  Batch batch;
  /** The batch's inputs on another device than the CPU, held until all that reads them has run. */
  std::vector<at::Tensor> sent;
  int threads = 0;
  /** On the session's device, then in host memory: see Transport. */
  std::vector<at::Tensor> outputs;
  std::string method;
  std::vector<Value> arguments;
  Value result;
  std::optional<CodedError> error;
};

/** Where jobs go that have ended; called once for each, on a thread of the session's. */
using Done = std::function<void(std::unique_ptr<Job>)>;

}  // namespace sconce
