// An operator that does to its process what an input asks for, or takes its time, and else returns three times a tensor.
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <sys/resource.h>
#include <torch/library.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace {

// The names match the model in test/torture/model.
enum Fault : int64_t { kNone, kAbort, kSegv, kExit, kHang, kMemory, kThrow };
// From here on: milliseconds that the operator sleeps, and that it computes.
constexpr int64_t kSleep = 1000;
constexpr int64_t kCompute = 1000000;

// Only where the process has a limit: the machine is others' too.
void exhaust_memory() {
  rlimit limit{};
  TORCH_CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY, "this process has no limit of memory");
  constexpr size_t kBytes = size_t{16} << 20;
  std::vector<std::unique_ptr<char[]>> held;
  for (;;) {
    held.emplace_back(new char[kBytes]);
    std::memset(held.back().get(), 1, kBytes);
  }
}

void compute(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end);
}

void commit(int64_t fault) {
  if (fault >= kCompute) return compute(std::chrono::milliseconds(fault - kCompute));
  switch (fault) {
    case kNone:
      return;
    case kAbort:
      std::abort();
    case kSegv:
      // Volatile, as a compiler takes a null pointer for something that cannot happen.
      *reinterpret_cast<volatile char*>(uintptr_t{8}) = 1;
      return;
    case kExit:
      std::exit(7);
    case kHang:
      for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
    case kMemory:
      return exhaust_memory();
    case kThrow:
      TORCH_CHECK(false, "the operator was asked to throw");
    default:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault - kSleep));
  }
}

at::Tensor fault(const at::Tensor& x, const at::Tensor& faults) {
  const auto flat = faults.contiguous().view({-1});
  const auto* each = flat.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < flat.numel(); i++) commit(each[i]);
  return x.mul(3);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(sconce_test, library) { library.def("fault(Tensor x, Tensor faults) -> Tensor", &fault); }
