// The functions that the native addon exports to JavaScript. src/engine/native/addon.ts has their types.
#include <dlfcn.h>
#include <napi.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>

#include "device.h"
#include "held_tensor.h"
#include "host.h"
#include "call_value.h"
#include "values.h"
#include "weights.h"

namespace sconce {
namespace {

Dim dim_from_js(const Napi::Value& value) {
  const auto given = value.As<Napi::Object>();
  Dim dim;
  dim.size = given.Get("size").As<Napi::Number>().Int64Value();
  dim.symbol = given.Get("symbol").As<Napi::Number>().Int32Value();
  const Napi::Value fill = given.Get("fill");
  dim.padded = !fill.IsUndefined();
  if (dim.padded) {
    const auto bytes = fill.As<Napi::Uint8Array>();
    std::copy_n(bytes.Data(), std::min(bytes.ByteLength(), dim.fill.size()), dim.fill.begin());
  }
  return dim;
}

TensorSpec spec_from_js(const Napi::Value& value) {
  const auto given = value.As<Napi::Object>();
  const auto name = given.Get("name").As<Napi::String>().Utf8Value();
  const uint32_t dtype = given.Get("dtype").As<Napi::Number>().Uint32Value();
  if (dtype >= kDTypes.size()) throw CodedError("tensor_invalid", "\"" + name + "\" has an unknown dtype");
  return {name, static_cast<uint8_t>(dtype), list_from_js(given.Get("dims"), dim_from_js),
          given.Get("text").As<Napi::String>().Utf8Value()};
}

ProgramWeight weight_from_js(const Napi::Value& value) {
  const auto weight = value.As<Napi::Object>();
  return {weight.Get("record").As<Napi::String>().Utf8Value(), weight.Get("dtype").As<Napi::Number>().Int32Value(),
          sizes_from_js(weight.Get("sizes")), sizes_from_js(weight.Get("strides")),
          weight.Get("offset").As<Napi::Number>().Int64Value()};
}

Program program_from_js(const Napi::Object& given) {
  const auto text = [](const Napi::Value& value) { return value.As<Napi::String>().Utf8Value(); };
  return {text(given.Get("source")), list_from_js(given.Get("operators"), text),
          list_from_js(given.Get("weights"), weight_from_js)};
}

CompiledCall compiled_from_js(const Napi::Object& given) {
  return {given.Get("minRows").As<Napi::Number>().Int64Value(), sizes_from_js(given.Get("inputs")), sizes_from_js(given.Get("outputs"))};
}

int threads_from_js(const Napi::Value& value) {
  const double threads = value.As<Napi::Number>().DoubleValue();
  if (!(threads >= 1 && threads <= 4096)) throw CodedError("usage", "threads must be between 1 and 4096");
  return static_cast<int>(threads);
}

/** Calls `body`. Its C++ exceptions become JS exceptions with a code. */
template <napi_value (*body)(napi_env, napi_callback_info)>
napi_value guarded(napi_env env, napi_callback_info info) noexcept {
  try {
    try {
      return body(env, info);
    } catch (const Napi::Error& error) {
      error.ThrowAsJavaScriptException();
    } catch (...) {
      napi_throw(env, error_to_js(env, current_error("run_failed")));
    }
  } catch (...) {
    // The JS error could not be created: memory is exhausted, or the Worker terminates.
    napi_throw_error(env, "run_failed", "the error could not be told");
  }
  return nullptr;
}

template <size_t N>
std::array<napi_value, N> arguments_of(napi_env env, napi_callback_info info) {
  std::array<napi_value, N> values{};
  size_t count = N;
  check(napi_get_cb_info(env, info, &count, values.data(), nullptr, nullptr));
  return values;
}

std::shared_ptr<Host>& host_of(napi_env env) {
  void* host = nullptr;
  check(napi_get_instance_data(env, &host));
  return *static_cast<std::shared_ptr<Host>*>(host);
}

/** open(options) → Promise of a session's handle. A session is a model's weights with a thread that runs them. */
napi_value Open(napi_env env, napi_callback_info info) {
  const auto [argument] = arguments_of<1>(env, info);
  const auto given = Napi::Value(env, argument).As<Napi::Object>();
  SessionOptions options;
  options.weights.path = given.Get("path").As<Napi::String>().Utf8Value();
  options.device = given.Get("device").As<Napi::String>().Utf8Value();
  options.threads = threads_from_js(given.Get("threads"));
  options.inputs = list_from_js(given.Get("inputs"), spec_from_js);
  options.outputs = list_from_js(given.Get("outputs"), spec_from_js);
  options.weights.callable = given.Get("callable").As<Napi::Boolean>();
  options.weights.instances = given.Get("instances").As<Napi::Number>().Uint32Value();
  options.keep = std::chrono::milliseconds(given.Get("keepMs").As<Napi::Number>().Int64Value());
  options.weights.pack = given.Get("pack").As<Napi::Boolean>();
  const Napi::Value share = given.Get("share");
  if (!share.IsUndefined()) options.share = session_from_js(env, share);
  const Napi::Value program = given.Get("program");
  if (!program.IsUndefined()) options.weights.program = program_from_js(program.As<Napi::Object>());
  const Napi::Value compiled = given.Get("compiled");
  if (!compiled.IsUndefined()) options.weights.compiled = compiled_from_js(compiled.As<Napi::Object>());
  return host_of(env)->open(std::move(options));
}

/** Address and element count of a typed array; throws `tensor_invalid` if its elements have another type. */
std::pair<void*, size_t> memory_of(napi_env env, napi_value array, napi_typedarray_type expected) {
  napi_typedarray_type type;
  size_t length;
  void* memory;
  check(napi_get_typedarray_info(env, array, &type, &length, &memory, nullptr, nullptr));
  if (type != expected) throw CodedError("tensor_invalid", "expected the batch in typed arrays of other types");
  return {memory, length};
}

PackedBatch packed_from_js(napi_env env, napi_value given) {
  const Napi::Object batch(env, given);
  const auto [meta, meta_length] = memory_of(env, batch.Get("meta"), napi_float64_array);
  const auto [bytes, bytes_length] = memory_of(env, batch.Get("packed"), napi_uint8_array);
  return {static_cast<const double*>(meta), meta_length, static_cast<const char*>(bytes), bytes_length,
          batch.Get("data")};
}

std::unique_ptr<Job> job_for(napi_env env, napi_value session, Job::Kind kind) {
  auto job = std::make_unique<Job>(kind);
  job->session = session_from_js(env, session);
  job->session->require_open();
  return job;
}

/** run(session, rows, batch) → Promise of the outputs of a batch of `rows` items. */
napi_value Run(napi_env env, napi_callback_info info) {
  const auto [handle, rows, given] = arguments_of<3>(env, info);
  auto job = job_for(env, handle, Job::Kind::run);
  Session& session = *job->session;
  job->batch = session.stacker().stack(env, Napi::Number(env, rows).Int64Value(), packed_from_js(env, given),
                                       [&](size_t bytes) { return session.pool().take(bytes); });
  return host_of(env)->submit(std::move(job));
}

/** stack(inputs, rows, batch) → the inputs of `rows` items, stacked to one tensor for each input. Runs nothing. */
napi_value Stack(napi_env env, napi_callback_info info) {
  const auto [inputs, rows, given] = arguments_of<3>(env, info);
  Stacker stacker(list_from_js(Napi::Value(env, inputs), spec_from_js));
  return stacked_to_js(env, stacker, Napi::Number(env, rows).Int64Value(), packed_from_js(env, given));
}

/** call(session, method, arguments) → Promise of the method's result. */
napi_value Call(napi_env env, napi_callback_info info) {
  const auto [handle, method, given] = arguments_of<3>(env, info);
  auto job = job_for(env, handle, Job::Kind::call);
  job->method = Napi::String(env, method).Utf8Value();
  job->arguments = std::get<ValueList>(value_from_js(Napi::Value(env, given)).held);
  return host_of(env)->submit(std::move(job));
}

/** readTensor(session, tensor) → Promise of a copy of the tensor's elements. The tensor stays on the device. */
napi_value ReadTensor(napi_env env, napi_callback_info info) {
  const auto [handle, tensor] = arguments_of<2>(env, info);
  auto job = job_for(env, handle, Job::Kind::read);
  job->sent.push_back(held_from_js(env, tensor).tensor());
  return host_of(env)->submit(std::move(job));
}

/**
 * takeTensor(tensor, isOutput) → the tensor's elements; frees the tensor. With `isOutput`, the elements of a large
 * tensor stay in libtorch's memory, without a copy.
 */
napi_value TakeTensor(napi_env env, napi_callback_info info) {
  const auto [tensor, is_output] = arguments_of<2>(env, info);
  return held_from_js(env, tensor).take(env, Napi::Boolean(env, is_output));
}

/** unstackTensor(tensor) → its rows along the first dimension, without a copy. */
napi_value UnstackTensor(napi_env env, napi_callback_info info) {
  const auto [tensor] = arguments_of<1>(env, info);
  return held_from_js(env, tensor).unstack(env);
}

/** freeTensor(tensor): frees the tensor's memory; a second call has no effect. */
napi_value FreeTensor(napi_env env, napi_callback_info info) {
  const auto [tensor] = arguments_of<1>(env, info);
  held_from_js(env, tensor).free(env);
  return nullptr;
}

/**
 * loadOperators(path): loads a library that registers operators with libtorch. A second load of the same operators
 * would end the process.
 */
napi_value LoadOperators(napi_env env, napi_callback_info info) {
  const auto [path] = arguments_of<1>(env, info);
  // With RTLD_GLOBAL, the library finds the symbols of the loaded libtorch.
  if (dlopen(Napi::String(env, path).Utf8Value().c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) throw CodedError("weights_invalid", dlerror());
  return nullptr;
}

napi_value SetThreads(napi_env env, napi_callback_info info) {
  const auto [handle, threads] = arguments_of<2>(env, info);
  auto job = job_for(env, handle, Job::Kind::set_threads);
  job->threads = threads_from_js(Napi::Value(env, threads));
  return host_of(env)->submit(std::move(job));
}

/**
 * close(session) → Promise that resolves when the session has freed its weights. Weights that another session shares
 * stay.
 */
napi_value Close(napi_env env, napi_callback_info info) {
  const auto [handle] = arguments_of<1>(env, info);
  return host_of(env)->close(session_from_js(env, handle), true);
}

/** keepsState(session) → whether a run may change state that the next run reads. */
napi_value KeepsState(napi_env env, napi_callback_info info) {
  const auto [handle] = arguments_of<1>(env, info);
  return Napi::Boolean::New(env, session_from_js(env, handle)->weights()->keeps_state());
}

/** packedLayers(session) → number of layers whose weights are rearranged for the processor. */
napi_value PackedLayers(napi_env env, napi_callback_info info) {
  const auto [handle] = arguments_of<1>(env, info);
  return Napi::Number::New(env, static_cast<double>(session_from_js(env, handle)->weights()->packed_layers()));
}

napi_value Settle(napi_env env, napi_callback_info) {
  host_of(env)->settle_finished();
  return nullptr;
}

napi_value CloseAll(napi_env env, napi_callback_info) {
  host_of(env)->close_all();
  return nullptr;
}

napi_value CudaDeviceCount(napi_env env, napi_callback_info) {
  return Napi::Number::New(env, cuda_device_count());
}

napi_value keep_host(napi_env env, napi_callback_info) {
  auto host = std::make_unique<std::shared_ptr<Host>>(Host::create(env));
  const auto forget = [](napi_env, void* data, void*) {
    const std::unique_ptr<std::shared_ptr<Host>> owned(static_cast<std::shared_ptr<Host>*>(data));
    (*owned)->close_all();
  };
  check(napi_set_instance_data(env, host.get(), forget, nullptr));
  host.release();
  return nullptr;
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  // Makes compiled packages check the shapes and dtypes of inputs. Otherwise a wrong shape makes them read beyond the
  // input's memory.
  setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", 0);
  guarded<keep_host>(env, nullptr);
  const auto add = [&](const char* name, napi_callback callback) {
    napi_value function;
    check(napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, nullptr, &function));
    exports.Set(name, function);
  };
  add("open", guarded<Open>);
  add("run", guarded<Run>);
  add("stack", guarded<Stack>);
  add("setThreads", guarded<SetThreads>);
  add("call", guarded<Call>);
  add("readTensor", guarded<ReadTensor>);
  add("takeTensor", guarded<TakeTensor>);
  add("unstackTensor", guarded<UnstackTensor>);
  add("freeTensor", guarded<FreeTensor>);
  add("loadOperators", guarded<LoadOperators>);
  add("keepsState", guarded<KeepsState>);
  add("packedLayers", guarded<PackedLayers>);
  add("settle", guarded<Settle>);
  add("close", guarded<Close>);
  add("closeAll", guarded<CloseAll>);
  add("cudaDeviceCount", guarded<CudaDeviceCount>);
  exports.Set("torchVersion", TORCH_VERSION);
  auto dtypes = Napi::Array::New(env, kDTypes.size());
  for (uint32_t i = 0; i < kDTypes.size(); ++i) dtypes.Set(i, kDTypes[i].name);
  exports.Set("dtypes", dtypes);
  return exports;
}

}  // namespace

NODE_API_MODULE(sconce, Init)

}  // namespace sconce
