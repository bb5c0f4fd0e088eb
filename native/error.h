// Errors with a stable code, and conversion of libtorch's exceptions to them.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace sconce {

/** `code` is an ErrorCode of src/base/errors.ts; the message is a single line. */
class CodedError : public std::runtime_error {
 public:
  CodedError(const char* code, const std::string& message) : std::runtime_error(message), code_(code) {}
  const char* code() const noexcept { return code_; }

 private:
  const char* code_;
};

[[noreturn]] inline void refuse_weights(const std::string& what) { throw CodedError("weights_invalid", what); }

/** Extracts the meaningful line of a message that may contain a TorchScript traceback or C++ stack. */
std::string meaningful_line(const std::string& message);

/** Converts the exception being handled; `fallback` is the code if no better one applies. */
CodedError current_error(const char* fallback) noexcept;

}  // namespace sconce
