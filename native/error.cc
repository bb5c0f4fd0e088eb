#include "error.h"

#include <sstream>

namespace sconce {
namespace {

bool is_out_of_memory(const std::string& message) {
  // TorchScript rethrows errors as runtime_error, so only the message shows the kind. CUDA's libraries write
  // CUBLAS_STATUS_ALLOC_FAILED and CUDNN_STATUS_ALLOC_FAILED.
  for (const char* words : {"out of memory", "can't allocate memory", "not enough memory", "std::bad_alloc",
                            "_STATUS_ALLOC_FAILED"}) {
    if (message.find(words) != std::string::npos) return true;
  }
  return false;
}

std::string trimmed(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

CodedError coded(const char* fallback, const std::string& message) {
  const char* code = is_out_of_memory(message) ? "out_of_memory" : fallback;
  return CodedError(code, meaningful_line(message));
}

}  // namespace

std::string meaningful_line(const std::string& message) {
  static constexpr const char* kTraceback = "Traceback of TorchScript";
  std::istringstream lines(message);
  std::string line;
  std::string first;
  std::string raised;
  const bool has_traceback = message.find(kTraceback) != std::string::npos;
  while (std::getline(lines, line)) {
    line = trimmed(line);
    if (line.empty()) continue;
    if (line.rfind("Exception raised from", 0) == 0) break;  // the C++ stack follows
    // A first line with a colon at its end continues on the next line: TorchScript's compiler puts the schema first.
    if (first.empty() || first.back() == ':') first += (first.empty() ? "" : " ") + line;
    // After a traceback, the last line "SomethingError: text" is the error.
    const auto colon = line.find(": ");
    const auto word = line.find("Error");
    if (has_traceback && colon != std::string::npos && word != std::string::npos && word < colon &&
        line.find(' ') > colon) {
      raised = trimmed(line.substr(colon + 2));
    }
  }
  static const std::string assertion = "AssertionError: ";
  const std::string& text = raised.empty() ? first : raised;
  if (text.rfind(assertion, 0) == 0) return text.substr(assertion.size());
  return text.empty() ? "no message was given" : text;
}

CodedError current_error(const char* fallback) noexcept {
  try {
    throw;
  } catch (const CodedError& error) {
    return error;
  } catch (const c10::OutOfMemoryError& error) {
    return CodedError("out_of_memory", meaningful_line(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return coded(fallback, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return CodedError("out_of_memory", "the process has too little memory for this batch");
  } catch (const std::exception& error) {
    return coded(fallback, error.what());
  } catch (...) {
    return CodedError(fallback, "something that is no std::exception was thrown");
  }
}

}  // namespace sconce
