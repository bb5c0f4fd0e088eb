#include "session.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "device.h"
#include "stream_transport.h"

namespace sconce {
namespace {

std::vector<std::string> names_of(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> names;
  for (const auto& spec : specs) names.push_back(spec.name);
  return names;
}

void use_threads(int threads) {
  // The first use of the thread pool resets this thread's count. This call is that use, so the count that is set next
  // stays.
  at::get_num_threads();
  at::set_num_threads(threads);
}

[[noreturn]] void refuse_closed() { throw CodedError("session_closed", "the session was used after dispose()"); }

}  // namespace

Session::Session(SessionOptions options, Done done)
    : options_(std::move(options)),
      done_(std::move(done)),
      stacker_(options_.inputs) {}

Session::~Session() {
  close(nullptr);
  join();
}

void Session::start(std::unique_ptr<Job> open) {
  queue_.push_back(std::move(open));
  thread_ = std::thread([this] { work(); });
}

void Session::submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (closing_) refuse_closed();
    queue_.push_back(std::move(job));
  }
  wake_.notify_one();
}

std::deque<std::unique_ptr<Job>> Session::close(std::unique_ptr<Job> job) {
  std::deque<std::unique_ptr<Job>> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(queue_);
    if (closing_) {
      if (job) left.push_back(std::move(job));
      return left;
    }
    closing_ = true;
    closing_job_ = std::move(job);
  }
  wake_.notify_one();
  return left;
}

void Session::join() {
  if (thread_.joinable()) thread_.join();
}

void Session::require_open() const {
  const std::lock_guard lock(mutex_);
  if (closing_) refuse_closed();
}

std::shared_ptr<Weights> Session::weights() const {
  const std::lock_guard lock(mutex_);
  if (!weights_) throw CodedError("session_closed", "the session whose weights were asked for is closed");
  return weights_;
}

void Session::work() {
  while (auto job = next()) {
    perform(*job);
    deliver(std::move(job));
  }
  transport_.reset();  // waits for batches on the device
  std::shared_ptr<Weights> weights;
  std::unique_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    weights.swap(weights_);
    job = std::move(closing_job_);
  }
  weights.reset();
  let_go_of_memory();
  if (job) done_(std::move(job));
}

std::unique_ptr<Job> Session::next() {
  const auto is_awaited = [this] { return closing_ || !queue_.empty(); };
  std::unique_lock lock(mutex_);
  if (!wake_.wait_for(lock, options_.keep, is_awaited)) {
    lock.unlock();
    let_go_of_memory();
    lock.lock();
    wake_.wait(lock, is_awaited);
  }
  if (queue_.empty()) return nullptr;  // `close` has taken the queue
  auto job = std::move(queue_.front());
  queue_.pop_front();
  return job;
}

void Session::let_go_of_memory() {
  pool_.clear();
  give_back_free_memory();
}

void Session::perform(Job& job) {
  const char* fallback = job.kind == Job::Kind::open ? "weights_invalid" : "run_failed";
  try {
    if (job.kind == Job::Kind::open) return load();
    if (job.kind == Job::Kind::set_threads) return use_threads(job.threads);
    const c10::InferenceMode inference;
    const DeviceScope scope(stream_);
    if (job.kind == Job::Kind::run) run(job);
    else if (job.kind == Job::Kind::call) call(job);
    else job.outputs.push_back(std::exchange(job.sent, {}).at(0).to(c10::kCPU));
  } catch (...) {
    job.error = current_error(fallback);
    drop_tensors(job);
  }
}

std::vector<at::Tensor> Session::inputs_of(Job& job) {
  if (transport_) return transport_->send(job);
  std::vector<at::Tensor> inputs;
  inputs.reserve(job.batch.inputs.size());
  for (const auto& input : job.batch.inputs) inputs.push_back(input.tensor());
  return inputs;
}

void Session::deliver(std::unique_ptr<Job> job) {
  if (transport_) return transport_->deliver(std::move(job));
  for (auto& input : job->batch.inputs) pool_.give(std::move(input.storage));
  done_(std::move(job));
}

/** Frees the tensors of a failed job now, because the next job may need their memory. */
void Session::drop_tensors(Job& job) noexcept {
  const DeviceScope scope(stream_, std::nothrow);
  job.outputs.clear();
  job.arguments.clear();
  job.result = {};
}

void Session::load() {
  use_threads(options_.threads);
  const c10::Device device = find_device(options_.device);
  stream_ = take_stream(device);
  if (!device.is_cpu()) {
    pool_.use_pinned_memory();
    transport_ = std::make_unique<StreamTransport>(stream_, pool_, done_);
  }
  std::shared_ptr<Weights> weights;
  if (options_.share) {
    weights = options_.share->weights();
    options_.share.reset();
  } else {
    auto wanted = std::move(options_.weights);
    wanted.device = device;
    wanted.inputs = names_of(options_.inputs);
    wanted.outputs = names_of(options_.outputs);
    wanted.instances *= transport_ ? StreamTransport::kDepth : 1;
    const DeviceScope scope(stream_);
    weights = open_weights(wanted);
    give_back_free_memory();
    // Sessions that share the weights use other streams, so the copy to the device must have ended.
    if (!device.is_cpu()) stream_.synchronize();
  }
  const std::lock_guard lock(mutex_);
  weights_ = std::move(weights);
}

void Session::run(Job& job) {
  // No lock: only this thread writes weights_.
  auto outputs = weights_->run(inputs_of(job));
  if (outputs.size() != options_.outputs.size()) require_output_count(names_of(options_.outputs), outputs.size());
  job.outputs.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    job.outputs.push_back(own_output(options_.outputs[i], std::move(outputs[i]), job.batch.rows, stream_.device()));
  }
}

void Session::call(Job& job) {
  for (auto& argument : job.arguments) use_tensors_on(argument, stream_);
  job.result = weights_->call(job.method, job.arguments);
  own_tensors(job.result);
  job.arguments.clear();
}

}  // namespace sconce
