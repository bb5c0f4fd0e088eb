// The transport for the CPU: tensors of a batch are used in place, without a copy.
#include "transport.h"

namespace sconce {
namespace {

class DirectTransport final : public Transport {
 public:
  DirectTransport(BufferPool& pool, Done done) : pool_(pool), done_(std::move(done)) {}

  size_t depth() const override { return 1; }

  std::vector<at::Tensor> send(Job& job) override {
    std::vector<at::Tensor> inputs;
    inputs.reserve(job.batch.inputs.size());
    for (const auto& input : job.batch.inputs) inputs.push_back(input.tensor());
    return inputs;
  }

  void deliver(std::unique_ptr<Job> job) noexcept override {
    for (auto& input : job->batch.inputs) pool_.give(std::move(input.storage));
    done_(std::move(job));
  }

 private:
  BufferPool& pool_;
  Done done_;
};

}  // namespace

std::unique_ptr<Transport> direct_transport(BufferPool& pool, Done done) {
  return std::make_unique<DirectTransport>(pool, std::move(done));
}

}  // namespace sconce
