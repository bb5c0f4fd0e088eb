// Devices by name, without CUDA headers: what CUDA needs is reached through c10's device-generic guards.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <optional>
#include <string>

namespace sconce {

/** How many CUDA devices can be used; 0 where libtorch has no CUDA or the machine has no driver. Loads libtorch_cuda. */
int cuda_device_count();

/** `cpu`, `cuda` or `cuda:N`; throws `device_unavailable` for another word and for a device that is not there. */
c10::Device find_device(const std::string& name);

/**
 * On CUDA the next stream of the device's pool, on the CPU its only one. Who asks keeps it: the caching allocator keeps
 * memory by stream, so work that takes another stream each time holds its memory once for each of them.
 */
c10::Stream take_stream(c10::Device device);

/** Makes `stream` and its device current in this thread for as long as it lives; does nothing on the CPU. */
class DeviceScope {
 public:
  explicit DeviceScope(c10::Stream stream);

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace sconce
