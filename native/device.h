// Finds devices by name. CUDA is reached through c10's device guards, so no CUDA headers are needed.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <new>
#include <optional>
#include <string>

namespace sconce {

/** Number of usable CUDA devices; 0 if libtorch is a CPU build or the machine has no driver. Loads libtorch_cuda. */
int cuda_device_count();

/** The device with the name `cpu` or `cuda:N`. Throws `device_unavailable` for other names and for missing devices. */
c10::Device find_device(const std::string& name);

/**
 * A stream for a session: on CUDA the next stream of the device's pool, on the CPU its only stream. Callers should keep
 * the stream, because the caching allocator holds memory for each stream.
 */
c10::Stream take_stream(c10::Device device);

/**
 * Returns freed memory to the system. Otherwise malloc keeps it, because src/engine/libtorch-env.ts configures it so.
 */
void give_back_free_memory();

/** Makes `stream` and its device current in this thread while the object exists. No effect on the CPU. */
class DeviceScope {
 public:
  explicit DeviceScope(c10::Stream stream);
  /**
   * For code that frees memory, for which CUDA would otherwise initialize its first device. No effect if the device has
   * failed: the failed job reports that.
   */
  DeviceScope(c10::Stream stream, std::nothrow_t) noexcept;

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace sconce
