#include "device.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <malloc.h>

#include <cstdlib>
#include <filesystem>

#include "error.h"

namespace sconce {
namespace {

/**
 * Loads libtorch_cuda.so from the folder of libtorch_cpu.so. Call this before any use of CUDA, because libtorch looks for CUDA
 * only once. Without CUDA, or if it cannot be loaded, this has no effect.
 */
void load_cuda() {
  static const bool tried = [] {
    // A loaded operator library may have loaded CUDA already.
    if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return true;
    Dl_info info{};
    void* symbol = reinterpret_cast<void*>(static_cast<at::Context& (*)()>(&at::globalContext));
    if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return true;
    const auto library = std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so";
    dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
    return true;
  }();
  (void)tried;
}

}  // namespace

int cuda_device_count() {
  load_cuda();
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount();
}

c10::Device find_device(const std::string& name) {
  if (name == "cpu") return c10::Device(c10::DeviceType::CPU);
  // src/engine/device.ts resolves the names. The check here keeps libtorch from using a missing device.
  const int index = name.rfind("cuda:", 0) == 0 ? std::atoi(name.c_str() + 5) : -1;
  if (index < 0 || index >= cuda_device_count()) throw CodedError("device_unavailable", "there is no device " + name);
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
}

c10::Stream take_stream(c10::Device device) {
  if (device.is_cpu()) return c10::Stream(c10::Stream::DEFAULT, device);
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

void give_back_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

DeviceScope::DeviceScope(c10::Stream stream) {
  if (!stream.device().is_cpu()) guard_.emplace(stream);
}

DeviceScope::DeviceScope(c10::Stream stream, std::nothrow_t) noexcept {
  try {
    if (!stream.device().is_cpu()) guard_.emplace(stream);
  } catch (...) {
  }
}

}  // namespace sconce
