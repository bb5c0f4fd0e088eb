#include "ranks.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "graph.h"

namespace sconce {
namespace {

using torch::jit::Node;

/** Operators whose result has the rank of their first input. */
const Kinds same_rank = {
    "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::batch_norm", "aten::group_norm", "aten::layer_norm", "aten::instance_norm",
    "aten::native_batch_norm", "aten::_native_batch_norm_legit_no_training",
    "aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d", "aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d",
    "aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d", "aten::adaptive_max_pool2d",
    "aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d", "aten::upsample_bilinear2d",
    "aten::upsample_bicubic2d", "aten::pixel_shuffle", "aten::pixel_unshuffle", "aten::channel_shuffle",
    "aten::relu", "aten::relu_", "aten::relu6", "aten::relu6_", "aten::leaky_relu", "aten::leaky_relu_", "aten::rrelu", "aten::prelu",
    "aten::elu", "aten::elu_", "aten::celu", "aten::selu", "aten::selu_", "aten::gelu", "aten::silu", "aten::silu_", "aten::mish",
    "aten::mish_", "aten::hardtanh", "aten::hardtanh_", "aten::hardswish", "aten::hardswish_", "aten::hardsigmoid",
    "aten::hardsigmoid_", "aten::sigmoid", "aten::sigmoid_", "aten::tanh", "aten::tanh_", "aten::softplus", "aten::softsign",
    "aten::log_softmax", "aten::softmax", "aten::_softmax", "aten::clamp", "aten::clamp_", "aten::clamp_min", "aten::clamp_max",
    "aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::alpha_dropout", "aten::neg", "aten::abs", "aten::exp",
    "aten::log", "aten::sqrt", "aten::rsqrt", "aten::reciprocal", "aten::floor", "aten::round", "aten::contiguous", "aten::clone",
    "aten::detach", "aten::detach_", "aten::alias", "aten::lift_fresh_copy", "aten::to", "aten::_to_copy", "aten::type_as",
    "aten::float", "aten::zeros_like", "aten::ones_like", "aten::slice", "aten::narrow", "aten::permute", "aten::transpose",
    "aten::flip", "aten::roll", "aten::cumsum", "aten::constant_pad_nd", "aten::pad", "aten::reflection_pad2d",
    "aten::add_", "aten::sub_", "aten::mul_", "aten::div_", "aten::max_pool2d_with_indices"};

/** Operators that broadcast: the result has the largest rank of the inputs. */
const Kinds broadcasts = {"aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::div", "aten::pow", "aten::maximum",
                          "aten::minimum", "aten::where"};

/** Operators that split their first input into a list. */
const Kinds gives_list_of_parts = {"aten::chunk", "aten::split", "aten::split_with_sizes", "aten::tensor_split"};

/** Operators whose result has the sizes in a list of numbers. */
const Kinds takes_sizes = {"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::expand", "aten::zeros", "aten::ones"};

/** Whether a node may change the rank of an existing tensor. */
bool changes_rank(const Node* node) {
  static const Kinds kinds = {"aten::resize_", "aten::resize_as_", "aten::unsqueeze_", "aten::squeeze_", "aten::set_", "aten::as_strided_"};
  const auto* schema = node->maybeSchema();
  if (schema == nullptr || !writes(node)) return false;
  return is_any_of(kinds, node) || schema->argumentIndexWithName("out").has_value();
}

/** Number of elements in a list of integers; none if it is not known. */
std::optional<int64_t> length(const torch::jit::Value* list) {
  if (list->node()->kind() == c10::prim::ListConstruct) return static_cast<int64_t>(list->node()->inputs().size());
  const auto value = torch::jit::toIValue(list);
  if (!value || !value->isIntList()) return std::nullopt;
  return static_cast<int64_t>(value->toIntVector().size());
}

}  // namespace

Ranks::Ranks(torch::jit::Graph& graph, const std::vector<std::optional<int64_t>>& inputs)
    : is_known_(!any_node(graph.block(), changes_rank)) {
  for (size_t i = 0; i < inputs.size() && i < graph.inputs().size(); ++i) known_[graph.inputs()[i]] = inputs[i];
}

std::optional<int64_t> Ranks::of(const torch::jit::Value* value) {
  if (!is_known_) return std::nullopt;
  const auto known = known_.find(value);
  if (known != known_.end()) return known->second;
  const auto found = find(value);
  known_[value] = found;
  return found;
}

std::optional<int64_t> Ranks::find(const torch::jit::Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::Constant) {
    const auto constant = torch::jit::toIValue(value);
    return constant && constant->isTensor() ? std::optional(constant->toTensor().dim()) : std::nullopt;
  }
  // A parameter of a loop may have another rank in each iteration.
  if (node->kind() == c10::prim::Param) return std::nullopt;
  return find(node, value->offset());
}

std::optional<int64_t> Ranks::find(const Node* node, size_t output) {
  switch (node->kind()) {
    case c10::prim::If: return same_in_blocks(node, output);
    case c10::prim::ListUnpack: return first_of_list(node);
    case c10::aten::mm:
    case c10::aten::addmm: return 2;
    case c10::aten::bmm: return 3;
    case c10::aten::linear: return of(node->input(1)) == 2 ? of(node->input(0)) : std::nullopt;
    case c10::aten::cat: {
      const auto rank = first_of_list(node);
      // A concatenation accepts an empty tensor of rank 1 beside any rank, so rank 1 proves nothing.
      return rank && *rank > 1 ? rank : std::nullopt;
    }
    case c10::aten::unsqueeze: {
      const auto rank = of(node->input(0));
      return rank ? std::optional(*rank + 1) : std::nullopt;
    }
    case c10::aten::select: {
      const auto rank = of(node->input(0));
      return rank ? std::optional(*rank - 1) : std::nullopt;
    }
    case c10::aten::stack: {
      const auto rank = first_of_list(node);
      return rank ? std::optional(*rank + 1) : std::nullopt;
    }
    // `convolution` and `_convolution` require weights of the input's rank.
    case c10::aten::convolution:
    case c10::aten::_convolution: return of(node->input(1));
    case c10::aten::flatten: {
      const auto rank = of(node->input(0));
      const auto start = constant_argument(node, "start_dim");
      const auto end = constant_argument(node, "end_dim");
      if (!rank || *rank == 0 || !start || !start->isInt() || !end || !end->isInt()) return std::nullopt;
      const auto place = [&](int64_t dim) { return dim < 0 ? dim + *rank : dim; };
      return *rank - std::max<int64_t>(0, place(end->toInt()) - place(start->toInt()));
    }
    case c10::aten::mean: {
      const auto rank = of(node->input(0));
      const auto keeps = constant_argument(node, "keepdim");
      const auto dims = constant_argument(node, "dim");
      if (!rank || !keeps || !keeps->isBool() || !dims || !dims->isIntList()) return std::nullopt;
      const auto count = static_cast<int64_t>(dims->toIntVector().size());
      return keeps->toBool() ? *rank : *rank - (count == 0 ? *rank : count);
    }
    default: break;
  }
  if (output == 0 && is_any_of(same_rank, node)) return of(node->input(0));
  if (is_any_of(broadcasts, node)) return broadcast(node);
  if (is_any_of(takes_sizes, node) && node->inputs().size() > 0) {
    for (const auto* input : node->inputs()) {
      if (input->type()->isSubtypeOf(*c10::ListType::ofInts())) return length(input);
    }
  }
  return std::nullopt;
}

std::optional<int64_t> Ranks::same_in_blocks(const Node* branch, size_t output) {
  const auto blocks = branch->blocks();
  const auto first = of(blocks[0]->outputs()[output]);
  return first && first == of(blocks[1]->outputs()[output]) ? first : std::nullopt;
}

std::optional<int64_t> Ranks::broadcast(const Node* node) {
  std::optional<int64_t> largest;
  for (const auto* input : node->inputs()) {
    if (!input->type()->isSubtypeOf(*c10::TensorType::get())) continue;
    const auto rank = of(input);
    if (!rank) return std::nullopt;
    largest = std::max(largest.value_or(0), *rank);
  }
  return largest;
}

/** Rank of the tensors in the list that is the node's first input. */
std::optional<int64_t> Ranks::first_of_list(const Node* node) {
  const Node* list = node->input(0)->node();
  if (list->kind() == c10::prim::ListConstruct && node->kind() != c10::prim::ListUnpack) {
    return list->inputs().empty() ? std::nullopt : of(list->input(0));
  }
  return is_any_of(gives_list_of_parts, list) ? of(list->input(0)) : std::nullopt;
}

}  // namespace sconce
