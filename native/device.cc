#include "device.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <filesystem>
#include <mutex>

#include "error.h"

namespace sconce {
namespace {

/**
 * Loads libtorch_cuda.so from the folder of libtorch_cpu.so. Call this before any use of CUDA, because libtorch looks for CUDA
 * only once. Returns the reason of a failure, or an empty string.
 */
const std::string& load_cuda() {
  static const std::string failure = []() -> std::string {
    // A loaded operator library may have loaded CUDA already.
    if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return "";
    Dl_info info{};
    void* symbol = reinterpret_cast<void*>(static_cast<at::Context& (*)()>(&at::globalContext));
    if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "libtorch_cpu.so was not found";
    const auto library = std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so";
    std::error_code error;
    if (!std::filesystem::exists(library, error)) return "this libtorch is a CPU build";
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* reason = dlerror();
      return reason == nullptr ? "libtorch_cuda.so could not be loaded" : reason;
    }
    return "";
  }();
  return failure;
}

[[noreturn]] void refuse_device(const std::string& name, const std::string& why) {
  throw CodedError("device_unavailable", "device \"" + name + "\": " + why);
}

}  // namespace

int cuda_device_count() {
  if (!load_cuda().empty() || !c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount();
}

c10::Device find_device(const std::string& name) {
  if (name == "cpu") return c10::Device(c10::DeviceType::CPU);
  int index = 0;
  if (name != "cuda") {
    const bool numbered = name.size() > 5 && name.size() <= 7 && name.rfind("cuda:", 0) == 0 &&
                          name.find_first_not_of("0123456789", 5) == std::string::npos;
    if (!numbered) refuse_device(name, "expected cpu, cuda or cuda:N");
    index = std::stoi(name.substr(5));
  }
  const int count = cuda_device_count();
  if (count == 0) {
    refuse_device(name, load_cuda().empty() ? "no CUDA device was found" : "CUDA is not available (" + load_cuda() + ")");
  }
  if (index >= count) refuse_device(name, "the last of the CUDA devices here is cuda:" + std::to_string(count - 1));
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
}

c10::Stream take_stream(c10::Device device) {
  if (device.is_cpu()) return c10::Stream(c10::Stream::DEFAULT, device);
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

DeviceScope::DeviceScope(c10::Stream stream) {
  if (!stream.device().is_cpu()) guard_.emplace(stream);
}

}  // namespace sconce
