#include "memory_file.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "error.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace sconce {

int create_memory_file() {
#ifdef __linux__
  const int descriptor = memfd_create("sconce", MFD_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  throw CodedError("run_failed", std::string("no file in memory: ") + std::strerror(errno));
#else
  throw CodedError("run_failed", "no file in memory: this system has none");
#endif
}

}  // namespace sconce
