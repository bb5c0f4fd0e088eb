#include "error.h"

#include <sstream>

namespace sconce {
namespace {

/**
 * Where libtorch raised an error: its backtrace up to the first frame. Empty for errors of CAFFE_ENFORCE, which have
 * only frames.
 */
std::string origin_of(const c10::Error& error) {
  const std::string trace = error.backtrace() ? error.backtrace()->get() : "";
  const std::string begin = "Exception raised from ";
  return trace.rfind(begin, 0) == 0 ? trace.substr(0, trace.find('\n')) : "";
}

/**
 * Whether libtorch lacked memory. Decided by the type and origin of the error, because an author chooses the text of
 * the assertions of a model.
 */
bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  // cudaErrorMemoryAllocation
  if (const auto* failed = dynamic_cast<const c10::AcceleratorError*>(&error)) return failed->get_error_code() == 2;
  const std::string& message = error.msg();
  // The allocator for CPUs raises with CAFFE_ENFORCE, which writes this prefix. The assertions of a model have an origin.
  if (message.rfind("[enforce fail at alloc_cpu.cpp:", 0) == 0) return origin_of(error).empty();
  // CUBLAS_STATUS_ALLOC_FAILED, CUDNN_STATUS_ALLOC_FAILED
  if (message.find("_STATUS_ALLOC_FAILED") == std::string::npos) return false;
  const auto origin = origin_of(error);
  return origin.find("/cuda/") != std::string::npos || origin.find("/cudnn/") != std::string::npos;
}

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

std::string meaningful_line(const std::string& message) {
  std::istringstream lines(message);
  std::string line;
  std::string text;
  while (std::getline(lines, line)) {
    line = trimmed(line);
    if (line.empty()) continue;
    if (line.rfind("Exception raised from", 0) == 0) break;  // the C++ stack follows
    text += (text.empty() ? "" : " ") + line;
    // A line with a colon at its end continues on the next line: TorchScript's compiler puts the schema first.
    if (text.back() != ':') break;
  }
  static const std::string assertion = "AssertionError: ";
  if (text.rfind(assertion, 0) == 0) return text.substr(assertion.size());
  return text.empty() ? "no message was given" : text;
}

CodedError current_error(const char* fallback) noexcept {
  try {
    throw;
  } catch (const CodedError& error) {
    return error;
  } catch (const c10::Error& error) {
    return CodedError(is_out_of_memory(error) ? "out_of_memory" : fallback, meaningful_line(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return CodedError("out_of_memory", "the process has too little memory for this batch");
  } catch (const std::exception& error) {
    return CodedError(fallback, meaningful_line(error.what()));
  } catch (...) {
    return CodedError(fallback, "something that is no std::exception was thrown");
  }
}

}  // namespace sconce
