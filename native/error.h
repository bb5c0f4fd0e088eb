// Errors with a stable code, and the conversion of libtorch's exceptions to these errors.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace sconce {

/** An error with a `code`, an ErrorCode of src/base/errors.ts. The message is a single line. */
class CodedError : public std::runtime_error {
 public:
  CodedError(const char* code, const std::string& message) : std::runtime_error(message), code_(code) {}
  const char* code() const noexcept { return code_; }

 private:
  const char* code_;
};

[[noreturn]] inline void refuse_weights(const std::string& what) { throw CodedError("weights_invalid", what); }

/** The line of a message that names the error, without the C++ stack. */
std::string meaningful_line(const std::string& message);

/** Converts the current exception. `fallback` is the code for exceptions without a known code. */
CodedError current_error(const char* fallback) noexcept;

}  // namespace sconce
