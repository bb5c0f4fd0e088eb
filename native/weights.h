// Loaded weights of either format, called with tensors in the order of the declared names.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "call_value.h"
#include "program.h"

namespace sconce {

struct WeightsOptions {
  std::string path;
  /** Of an exported program. */
  std::optional<Program> program;
  /** Of an exported program, also of a compiled one. */
  std::optional<GuardText> guards;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::vector<std::string> inputs;
  /** The number of dimensions of each input, with that of the batch. */
  std::vector<int64_t> input_ranks;
  std::vector<std::string> outputs;
  /** For `call` only: names are not compared, and `run` is not used. Else a TorchScript module is frozen, which folds constants in and drops
   *  every method but `forward`; for `call` one that has no others, and leaves its attributes as they are. */
  bool callable = false;
  /** How many batches will be under way at once on these weights; more of them wait for each other. */
  size_t instances = 1;
  /** Whether layers may get their weights as oneDNN reads them, see `pack_layers`. */
  bool pack = true;
};

/** Shared by the sessions that run on them; `run` may be called from several threads at once. */
class Weights {
 public:
  virtual ~Weights() = default;
  /**
   * Takes tensors on the device that the weights are on, and works on the current stream. One tensor for each declared
   * output, in order; what they are is not checked yet, and a device with streams may still be at work on them.
   * Throws `weights_invalid` where names or counts differ from the declared ones, and whatever libtorch throws.
   */
  virtual std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) = 0;
  /** Any method, with arguments by order; trailing ones that have defaults may be left out. Throws `tensor_invalid` for arguments
   *  that do not fit, `run_failed` for an unknown method, and whatever libtorch throws. */
  virtual Value call(const std::string& method, const std::vector<Value>& arguments) = 0;
  /** Whether a run may write what the next one reads: then sessions that run side by side need weights of their own. Known of weights
   *  that were opened for several instances. */
  virtual bool keeps_state() const = 0;
  /** The most rows of a batch, where the weights say so; `run` with more throws. */
  virtual std::optional<int64_t> most_rows() const { return std::nullopt; }
  /** How many layers have packed weights. */
  virtual size_t packed_layers() const { return 0; }
};

/** Tells the format by the file's content, unless it is an exported program. Throws `weights_invalid` where it is none or its names differ. */
std::shared_ptr<Weights> open_weights(const WeightsOptions& options);

std::shared_ptr<Weights> open_torchscript(const WeightsOptions& options);
std::shared_ptr<Weights> open_aotinductor(const WeightsOptions& options);

/** The kind of processor and its features that the code in the file was compiled for, space-separated; empty where it holds none. */
std::string processor_needs_of(const std::string& path);

/** The kind of device ("cpu", "cuda") that the code in the file was compiled for; empty where it holds none, or does not say. */
std::string compiled_device_of(const std::string& path);

/** The same of an AOTInductor package. */
std::string device_of_package(const std::string& path);

/**
 * Where each declared name is found among the names the weights use: result[i] is the place of declared[i].
 * Throws `weights_invalid` where a name is missing on either side.
 */
std::vector<size_t> places_of_outputs(const std::vector<std::string>& declared, const std::vector<std::string>& given);

/** Throws `weights_invalid` unless there are as many outputs as declared. */
void require_output_count(const std::vector<std::string>& declared, size_t given);

}  // namespace sconce
