#include "passes.h"

#include <ATen/core/Tensor.h>
#include <ATen/Functions.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "graph.h"

namespace sconce {
namespace {

using torch::jit::Graph;
using torch::jit::Node;

bool is_false(const Node* node, const char* name) { return constant_argument(node, name) == c10::IValue(false); }

/** A batch norm as a scale and a shift of each channel, in float64. */
struct Norm {
  at::Tensor scale;
  at::Tensor shift;
};

bool is_batch_norm(const Node* node) {
  const std::string_view kind = node->kind().toQualString();
  if (kind == "aten::_native_batch_norm_legit_no_training") return true;
  return (kind == "aten::batch_norm" || kind == "aten::native_batch_norm") && is_false(node, "training");
}

/** Whether the value is a tensor with one number of dtype `type` for each channel. */
bool is_by_channel(const std::optional<c10::IValue>& value, int64_t channels, at::ScalarType type) {
  if (!value || !value->isTensor()) return false;
  const auto& tensor = value->toTensor();
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.dim() == 1 && tensor.size(0) == channels && tensor.scalar_type() == type;
}

std::optional<Norm> norm_of(const Node* node, int64_t channels, at::ScalarType type) {
  const auto mean = constant_argument(node, "running_mean");
  const auto variance = constant_argument(node, "running_var");
  const auto weight = constant_argument(node, "weight");
  const auto bias = constant_argument(node, "bias");
  const auto eps = constant_argument(node, "eps");
  const auto is_one = [&](const auto& value) { return is_by_channel(value, channels, type); };
  const auto is_none_or_one = [&](const auto& value) { return value && (value->isNone() || is_one(value)); };
  if (!is_one(mean) || !is_one(variance) || !is_none_or_one(weight) || !is_none_or_one(bias) || !eps || !eps->isDouble()) return std::nullopt;
  at::Tensor scale = variance->toTensor().to(at::kDouble).add(eps->toDouble()).rsqrt();
  if (weight->isTensor()) scale = scale.mul(weight->toTensor().to(at::kDouble));
  at::Tensor shift = mean->toTensor().to(at::kDouble).mul(scale).neg();
  if (bias->isTensor()) shift = shift.add(bias->toTensor().to(at::kDouble));
  return Norm{scale, shift};
}

/** A convolution before a batch norm, with constant weights. Dimension 0 of the weights is the output channel. */
struct NormedConvolution {
  Node* node;
  at::Tensor weight;
  std::optional<at::Tensor> bias;
};

/** Whether a node refuses an input with fewer dimensions than its weights. */
bool needs_batch(const Node* node) { return node->kind() == c10::aten::convolution || node->kind() == c10::aten::_convolution; }

/** Whether a node is a convolution whose output channels are dimension 0 of the weights. */
bool is_foldable(const Node* node) {
  switch (node->kind()) {
    case c10::aten::conv1d:
    case c10::aten::conv2d:
    case c10::aten::conv3d: return node->namedInput("padding")->type()->kind() != c10::TypeKind::StringType;
    default: return needs_batch(node) && is_false(node, "transposed");
  }
}

std::optional<NormedConvolution> convolution_before(const Node* norm) {
  Node* const node = norm->input(0)->node();
  if (!is_foldable(node)) return std::nullopt;
  const auto weight = constant_argument(node, "weight");
  const auto bias = constant_argument(node, "bias");
  if (!weight || !weight->isTensor() || !bias || !(bias->isNone() || bias->isTensor())) return std::nullopt;
  const at::Tensor& given = weight->toTensor();
  const auto type = given.scalar_type();
  if (given.layout() != at::kStrided || given.dim() < 3 || (type != at::kFloat && type != at::kDouble)) return std::nullopt;
  if (bias->isNone()) return NormedConvolution{node, given, std::nullopt};
  if (!is_by_channel(bias, given.size(0), type)) return std::nullopt;
  return NormedConvolution{node, given, bias->toTensor()};
}

/** Whether only the batch norm reads the elements of a convolution's output. Other nodes may read its sizes. */
bool is_read_by(const torch::jit::Value* output, const Node* norm) {
  const auto& uses = output->uses();
  return std::all_of(uses.begin(), uses.end(), [&](const auto& use) {
    return (use.user == norm && use.offset == 0) || reads_only_metadata(use.user, use.offset);
  });
}

/** Whether only the first result of the batch norm is used, so that a convolution can replace it. */
bool gives_one(const Node* norm) {
  const auto outputs = norm->outputs();
  return std::all_of(outputs.begin() + 1, outputs.end(), [](const torch::jit::Value* output) { return !output->hasUses(); });
}

bool is_finite(const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

/**
 * Replaces `conv2d` and the like, which accept an input without a batch dimension, by `convolution`, which refuses it.
 * The batch norm scales dimension 1, which has the channels only with a batch dimension.
 */
Node* with_batch(const NormedConvolution& convolution) {
  Node* const node = convolution.node;
  if (needs_batch(node)) return node;
  auto* const graph = node->owningGraph();
  const torch::jit::WithInsertPoint after(node->next());
  std::vector<torch::jit::Value*> inputs;
  for (const char* name : {"input", "weight", "bias", "stride", "padding", "dilation"}) inputs.push_back(node->namedInput(name));
  const std::vector<int64_t> output_padding(static_cast<size_t>(convolution.weight.dim()) - 2, 0);
  inputs.push_back(graph->insertConstant(false));  // transposed
  inputs.push_back(graph->insertConstant(output_padding));
  inputs.push_back(node->namedInput("groups"));
  auto* const made = graph->insertNode(graph->create(c10::aten::convolution, inputs));
  made->copyMetadata(node);
  node->output()->replaceAllUsesWith(made->output());
  node->destroy();
  return made;
}

void fold_into_convolution(Node* norm) {
  const auto found = convolution_before(norm);
  if (!found || !is_read_by(found->node->output(), norm) || !gives_one(norm)) return;
  const auto type = found->weight.scalar_type();
  const auto by = norm_of(norm, found->weight.size(0), type);
  if (!by) return;
  std::vector<int64_t> by_output(static_cast<size_t>(found->weight.dim()), 1);
  by_output[0] = -1;
  const auto format = found->weight.suggest_memory_format();
  const auto weight = found->weight.to(at::kDouble).mul(by->scale.view(by_output)).to(type).contiguous(format);
  auto bias = by->shift;
  if (found->bias) bias = bias.add(found->bias->to(at::kDouble).mul(by->scale));
  bias = bias.to(type);
  if (!is_finite(weight) || !is_finite(bias)) return;
  auto* const graph = norm->owningGraph();
  auto* const convolution = with_batch(*found);
  const torch::jit::WithInsertPoint before(convolution);
  const auto replace = [&](const char* name, const at::Tensor& tensor) {
    convolution->replaceInput(*convolution->schema().argumentIndexWithName(name), graph->insertConstant(tensor));
  };
  replace("weight", weight);
  replace("bias", bias);
  norm->output(0)->replaceAllUsesWith(convolution->output());
}

}  // namespace

void fold_batch_norms(const std::shared_ptr<Graph>& graph) {
  for (auto* node : nodes_of(graph->block(), is_batch_norm)) fold_into_convolution(node);
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace sconce
