// Two CUDA devices made of this machine's memory, for tests of what the addon does on a GPU where there is none:
// registered with libtorch as its CUDA library registers itself. Copies, and the operators `add` and `mul`, are late; every
// other operator waits for its stream and runs on the CPU. A copy to the host that begins with -666 fails, as a device does:
// when somebody waits for it.
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/add.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstring>

#include "memory.h"
#include "streams.h"

// Its header includes all of TorchScript: half of the compile time of this file.
namespace torch::jit {
TORCH_API void overrideCanFuseOnGPU(bool value);
}

/** The most copies and operators that were done at the same time since this was asked last. */
extern "C" int fake_cuda_most_at_work() { return fake::most_at_work.exchange(0); }

/** The number of tensors that have memory of a device. */
extern "C" int fake_cuda_blocks() { return static_cast<int>(fake::device_memory().count()); }

namespace {

constexpr c10::DeviceIndex kDevices = 2;

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kDevices> current_stream{};

c10::Device device_at(c10::DeviceIndex index) { return {c10::DeviceType::CUDA, index}; }

c10::Stream stream_of(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::UNSAFE, device_at(device), current_stream.at(device));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return device_at(std::exchange(current_device, device.index()));
  }
  c10::Device getDevice() const override { return device_at(current_device); }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::Stream getStream(c10::Device device) const override { return stream_of(device.index()); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<c10::StreamId> last{0};
    return c10::Stream(c10::Stream::UNSAFE, device, ++last);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto before = stream_of(stream.device_index());
    current_stream.at(stream.device_index()) = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool queryStream(const c10::Stream& stream) const override {
    auto& queue = fake::queue_of(stream);
    return queue.has_done(queue.added());
  }
  void synchronizeStream(const c10::Stream& stream) const override { fake::queue_of(stream).wait(); }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = std::make_unique<fake::Event>().release();
    static_cast<fake::Event*>(*event)->record(fake::queue_of(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    static_cast<fake::Event*>(event)->block(fake::queue_of(stream));
  }
  bool queryEvent(void* event) const override { return static_cast<fake::Event*>(event)->query(); }
  void synchronizeEvent(void* event) const override { static_cast<fake::Event*>(event)->synchronize(); }
  // Events are leaked: streams may still wait for them.
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get() != nullptr) {
      fake::device_memory().use(static_cast<fake::Block*>(data.get_context()), fake::queue_of(stream));
    }
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = device_at(current_device);
    if (bytes == 0) return {nullptr, device};
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= fake::kMaxBytes, "CUDA out of memory. Tried to allocate ", bytes, " bytes");
    auto* block = fake::device_memory().take(bytes, stream_of(current_device));
    return {block->memory, block, [](void* of) { fake::device_memory().give(static_cast<fake::Block*>(of)); }, device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = fake::pinned_memory().take(bytes, std::nullopt);
    const auto free = [](void* of) { fake::pinned_memory().give(static_cast<fake::Block*>(of)); };
    return {block->memory, block, free, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex current_device() const override { return current_device_index(); }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  int getNumGPUs() const override { return kDevices; }
  bool isPinnedPtr(const void* data) const override { return fake::pinned_memory().around(data) != nullptr; }
  at::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }

 private:
  static c10::DeviceIndex current_device_index() { return ::current_device; }
};
using at::CUDAHooksArgs;
using at::CUDAHooksInterface;
using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, CUDAHooks)

const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  static DeviceAllocator allocator;
  return at::detail::empty_generic(sizes, &allocator, kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  static DeviceAllocator allocator;
  return at::detail::empty_strided_generic(sizes, strides, &allocator, kKeys, c10::dtype_or_default(type));
}

fake::Queue& current_queue(const at::Tensor& on) { return fake::queue_of(stream_of(on.device().index())); }

/** The same memory as the CPU sees it; like a kernel's, this pointer keeps nothing. */
at::Tensor bare(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(c10::kCPU));
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const auto& there = self.is_cuda() ? self : source;
  auto& queue = current_queue(there);
  const bool simple = self.scalar_type() == source.scalar_type() && self.sizes() == source.sizes() &&
                      self.is_contiguous() && source.is_contiguous();
  if (!simple) {
    queue.wait();
    bare(self).copy_(bare(source));
    return self;
  }
  const bool to_host = self.is_cpu();
  const auto time = self.is_cuda() && source.is_cuda() ? fake::kComputeTime : fake::kCopyTime;
  queue.add([to = self.data_ptr(), from = source.data_ptr(), bytes = self.nbytes(), to_host, time, &queue] {
    const fake::AtWork counted;
    // Reads late, and writes early.
    if (bytes > 0) std::memset(to, 0xff, bytes);
    std::this_thread::sleep_for(time);
    if (bytes > 0) std::memcpy(to, from, bytes);
    float first = 0;
    if (bytes >= sizeof(first)) std::memcpy(&first, from, sizeof(first));
    if (to_host && first == -666) queue.has_failed = true;
  });
  const auto& host = to_host ? self : source;
  fake::Block* pinned = host.is_cpu() ? fake::pinned_memory().around(host.data_ptr()) : nullptr;
  if (pinned != nullptr) fake::pinned_memory().use(pinned, queue);
  // The device copies memory that is not pinned, and the caller waits for the copy.
  if (!(self.is_cuda() && source.is_cuda()) && (!non_blocking || pinned == nullptr)) queue.wait();
  return self;
}

template <typename Operation>
at::Tensor late(const at::Tensor& a, const at::Tensor& b, Operation operation) {
  const auto& there = a.is_cuda() ? a : b;
  auto result = at::empty(at::infer_size(a.sizes(), b.sizes()), there.options().dtype(at::result_type(a, b)));
  const auto operand = [](const at::Tensor& of) { return of.is_cuda() ? bare(of) : of.clone(); };
  current_queue(there).add([out = bare(result), a = operand(a), b = operand(b), operation]() mutable {
    const fake::AtWork counted;
    const c10::InferenceMode inference;
    std::this_thread::sleep_for(fake::kComputeTime);
    operation(out, a, b);
  });
  return result;
}

at::Tensor mul(const at::Tensor& a, const at::Tensor& b) {
  return late(a, b, [](at::Tensor& out, const at::Tensor& x, const at::Tensor& y) { at::mul_out(out, x, y); });
}

at::Tensor add(const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha) {
  return late(a, b, [alpha](at::Tensor& out, const at::Tensor& x, const at::Tensor& y) { at::add_out(out, x, y, alpha); });
}

/** Copies the output of an operator on the CPU into the allocated tensor. */
at::Tensor copy_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (target.sizes() != source.sizes()) {
    const auto fresh = at::empty(source.sizes(), target.options());
    target.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
    target.unsafeGetTensorImpl()->set_sizes_contiguous(source.sizes());
  }
  at::Tensor self = target;
  return copy(self, source, false);
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fake::queue_of(stream_of(current_device)).wait();
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(at::native::view));
  m.impl("copy_", copy);
  m.impl("_copy_from_and_resize", copy_and_resize);
  m.impl("mul.Tensor", mul);
  m.impl("add.Tensor", add);
}

/** This device has no compiler for kernels. */
const bool fuses = [] {
  torch::jit::overrideCanFuseOnGPU(false);
  return false;
}();

}  // namespace
