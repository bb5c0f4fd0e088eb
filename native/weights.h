// Loaded weights of any format. Calls pass tensors in the order of the declared names.
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

/** How batches and calls reach an AOTInductor package. src/engine/program reads it from the package's source. */
struct CompiledCall {
  /** Smallest batch that the package accepts. Smaller batches are padded. */
  int64_t min_rows = 1;
  /** For each input of the package: the place of the declared input. */
  std::vector<int64_t> inputs;
  /** For each declared output: its place among the outputs of the package. */
  std::vector<int64_t> outputs;
};

struct WeightsOptions {
  std::string path;
  /** Set if the file is an exported program. */
  std::optional<Program> program;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  /** Names of the declared tensors. */
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  /**
   * True if only `call` is used, not `run`. Then names are not checked, and all methods of a TorchScript module stay.
   */
  bool callable = false;
  /** Maximum batches that run at once on these weights. Further batches wait. */
  size_t instances = 1;
  /** Set if the file is an AOTInductor package. */
  std::optional<CompiledCall> compiled;
  /** Whether layers may rearrange their weights for the processor. */
  bool pack = true;
};

/**
 * Loaded weights with their forward pass. Several sessions may share them, and may call `run` on several threads at
 * once.
 */
class Weights {
 public:
  virtual ~Weights() = default;
  /**
   * Runs a batch on the current stream. Returns a tensor for each declared output, in order; a GPU may still be
   * computing them. Throws `weights_invalid` if names or counts differ from the declaration, and libtorch's errors.
   */
  virtual std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) = 0;
  /**
   * Calls a method with positional arguments; trailing arguments with defaults may be omitted. Throws `tensor_invalid`
   * for wrong arguments, `run_failed` for an unknown method, and libtorch's errors.
   */
  virtual Value call(const std::string& method, const std::vector<Value>& arguments) = 0;
  /**
   * Whether a run may modify state that the next run reads, so that parallel sessions must not share the weights. For
   * TorchScript that was opened for one instance, false without a check.
   */
  virtual bool keeps_state() const { return true; }
  /** Number of layers whose weights are rearranged for the processor. */
  virtual size_t packed_layers() const { return 0; }
};

/** Registers torchvision's nms, roi_align and deform_conv2d, unless a library has registered them. Later calls have no effect. */
void register_vision_operators();

/** Loads weights. Throws `weights_invalid` if libtorch cannot load them, or if names differ from the declaration. */
std::shared_ptr<Weights> open_weights(const WeightsOptions& options);

std::shared_ptr<Weights> open_torchscript(const WeightsOptions& options);
std::shared_ptr<Weights> open_aotinductor(const WeightsOptions& options);

/**
 * For each declared output, its index among the outputs that the weights give. Throws `weights_invalid` if a name is
 * missing on either side.
 */
std::vector<size_t> places_of_outputs(const std::vector<std::string>& declared, const std::vector<std::string>& given);

/** Throws `weights_invalid` unless the weights give as many outputs as are declared. */
void require_output_count(const std::vector<std::string>& declared, size_t given);

}  // namespace sconce
