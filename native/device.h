// Finds devices by name. Needs no CUDA headers: c10's device-generic guards reach CUDA.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <optional>
#include <string>

namespace sconce {

/** Number of usable CUDA devices; 0 if libtorch is a CPU build or the machine has no driver. Loads libtorch_cuda. */
int cuda_device_count();

/** `cpu`, `cuda` or `cuda:N`; throws `device_unavailable` for other names and missing devices. */
c10::Device find_device(const std::string& name);

/**
 * On CUDA, the next stream of the device's pool; on the CPU, its only stream. Callers should keep the stream: the
 * caching allocator holds memory per stream, so changing streams multiplies memory.
 */
c10::Stream take_stream(c10::Device device);

/** Makes `stream` and its device current in this thread during the scope; no effect on the CPU. */
class DeviceScope {
 public:
  explicit DeviceScope(c10::Stream stream);

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace sconce
