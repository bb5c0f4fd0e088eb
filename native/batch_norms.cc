#include "batch_norms.h"

#include <ATen/core/Tensor.h>
#include <ATen/Functions.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "graph.h"
#include "ranks.h"

namespace sconce {
namespace {

using torch::jit::Graph;
using torch::jit::Node;

bool is_false(const Node* node, const char* name) { return constant_argument(node, name) == c10::IValue(false); }

/** A batch norm as a scale and a shift of each channel, in float64. */
struct Norm {
  at::Tensor scale;
  at::Tensor shift;
  at::ScalarType type;
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
  return Norm{scale, shift, type};
}

/** A layer before a batch norm, with constant weights. Dimension 0 of the weights is the output channel. */
struct NormedLayer {
  Node* node;
  at::Tensor weight;
  std::optional<at::Tensor> bias;
};

bool is_layer(const Node* node) {
  switch (node->kind()) {
    case c10::aten::conv1d:
    case c10::aten::conv2d:
    case c10::aten::conv3d:
    case c10::aten::linear: return true;
    case c10::aten::convolution:
    case c10::aten::_convolution: return is_false(node, "transposed");
    default: return false;
  }
}

std::optional<NormedLayer> layer_of(Node* node) {
  if (!is_layer(node)) return std::nullopt;
  const auto weight = constant_argument(node, "weight");
  const auto bias = constant_argument(node, "bias");
  if (!weight || !weight->isTensor() || !bias || !(bias->isNone() || bias->isTensor())) return std::nullopt;
  const at::Tensor& given = weight->toTensor();
  const auto type = given.scalar_type();
  if (given.layout() != at::kStrided || given.dim() < 2 || (type != at::kFloat && type != at::kDouble)) return std::nullopt;
  if (bias->isNone()) return NormedLayer{node, given, std::nullopt};
  if (!is_by_channel(bias, given.size(0), type)) return std::nullopt;
  return NormedLayer{node, given, bias->toTensor()};
}

/** Whether only the batch norm reads the elements of a layer's output. Other nodes may read its sizes. */
bool is_read_by(const torch::jit::Value* output, const Node* norm) {
  const auto& uses = output->uses();
  return std::all_of(uses.begin(), uses.end(), [&](const auto& use) {
    return (use.user == norm && use.offset == 0) || reads_only_metadata(use.user, use.offset);
  });
}

/** Whether only the first result of the batch norm is used, so that a layer can replace it. */
bool gives_one(const Node* norm) {
  const auto outputs = norm->outputs();
  return std::all_of(outputs.begin() + 1, outputs.end(), [](const torch::jit::Value* output) { return !output->hasUses(); });
}

bool is_finite(const at::Tensor& tensor) { return tensor.isfinite().all().item<bool>(); }

void fold_into_layer(Node* norm, Ranks& ranks) {
  const auto layer = layer_of(norm->input(0)->node());
  if (!layer || !is_read_by(layer->node->output(), norm) || !gives_one(norm)) return;
  // The batch norm scales dimension 1, which has the channels only if output and weights have equal ranks.
  if (ranks.of(layer->node->output()) != layer->weight.dim()) return;
  const auto found = norm_of(norm, layer->weight.size(0), layer->weight.scalar_type());
  if (!found) return;
  std::vector<int64_t> by_output(static_cast<size_t>(layer->weight.dim()), 1);
  by_output[0] = -1;
  const auto format = layer->weight.suggest_memory_format();
  const auto weight = layer->weight.to(at::kDouble).mul(found->scale.view(by_output)).to(found->type).contiguous(format);
  auto bias = found->shift;
  if (layer->bias) bias = bias.add(layer->bias->to(at::kDouble).mul(found->scale));
  bias = bias.to(found->type);
  if (!is_finite(weight) || !is_finite(bias)) return;
  auto* const graph = norm->owningGraph();
  const torch::jit::WithInsertPoint before(layer->node);
  const auto replace = [&](const char* name, const at::Tensor& by) {
    layer->node->replaceInput(*layer->node->schema().argumentIndexWithName(name), graph->insertConstant(by));
  };
  replace("weight", weight);
  replace("bias", bias);
  norm->output(0)->replaceAllUsesWith(layer->node->output());
}

}  // namespace

void fold_batch_norms(const std::shared_ptr<Graph>& graph, const std::vector<std::optional<int64_t>>& input_ranks) {
  Ranks ranks(*graph, input_ranks);
  for (auto* node : nodes_of(graph->block())) {
    if (is_batch_norm(node)) fold_into_layer(node, ranks);
  }
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace sconce
