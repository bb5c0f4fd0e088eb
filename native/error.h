// Errors that carry one of sconce's stable codes, and the way from anything libtorch throws to one of them.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace sconce {

/** `code` is one of the ErrorCode words of src/errors.ts; the message is one line for people. */
class CodedError : public std::runtime_error {
 public:
  CodedError(const char* code, const std::string& message) : std::runtime_error(message), code_(code) {}
  const char* code() const noexcept { return code_; }

 private:
  const char* code_;
};

[[noreturn]] inline void refuse_weights(const std::string& what) { throw CodedError("weights_invalid", what); }

/** The line that tells what happened, out of a message that may hold a TorchScript traceback or a C++ stack. */
std::string meaningful_line(const std::string& message);

/** The exception that is being handled, as a coded error: `fallback` for what has no better code. */
CodedError current_error(const char* fallback) noexcept;

}  // namespace sconce
