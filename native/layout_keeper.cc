#include "passes.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph.h"
#include "packed_layers.h"

namespace sconce {
namespace {

using torch::jit::Graph;
using torch::jit::Node;

/** Whether each list of tensors among these outputs is only concatenated or unpacked. */
bool are_taken_apart(at::ArrayRef<const torch::jit::Value*> outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const torch::jit::Value* output) {
    if (!output->type()->isSubtypeOf(*c10::ListType::ofTensors())) return true;
    const auto& uses = output->uses();
    return std::all_of(uses.begin(), uses.end(), [](const auto& use) {
      return use.user->kind() == c10::aten::cat || use.user->kind() == c10::prim::ListUnpack;
    });
  });
}

/** Whether the outputs have the memory layout of the inputs, and the same values for any layout. */
bool keeps_layout(const Node* node) {
  static const Kinds kinds = {
      "aten::conv2d", "aten::_convolution", "aten::convolution", "aten::batch_norm", "aten::group_norm",
      "aten::max_pool2d", "aten::avg_pool2d", "aten::adaptive_avg_pool2d", "aten::adaptive_max_pool2d",
      "aten::upsample_nearest2d", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d", "aten::pixel_shuffle",
      "aten::relu", "aten::relu6", "aten::leaky_relu", "aten::prelu", "aten::elu", "aten::gelu", "aten::silu", "aten::mish",
      "aten::hardtanh", "aten::hardswish", "aten::hardsigmoid", "aten::sigmoid", "aten::tanh", "aten::softplus",
      "aten::clamp", "aten::clamp_min", "aten::clamp_max", "aten::dropout",
      "aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::div", "aten::neg", "aten::abs", "aten::exp", "aten::sqrt",
      "aten::pow", "aten::mean", "aten::cat", "aten::conv_transpose2d", "prim::ListConstruct", AS_WRITTEN};
  return is_any_of(kinds, node) && are_taken_apart(node->outputs());
}

/** Whether the outputs are slices of the input. Slices keep the input's order of dimensions, but are not contiguous. */
bool gives_parts(const Node* node) {
  static const Kinds kinds = {"aten::slice", "aten::narrow", "aten::chunk", "aten::split",
                              "aten::split_with_sizes", "prim::ListUnpack"};
  return is_any_of(kinds, node) && are_taken_apart(node->outputs());
}

/** Whether a node reads strides or offsets, which differ between a slice and a copy. */
bool asks_for_strides(const Node* node) {
  static const Kinds kinds = {"aten::as_strided", "aten::stride", "aten::is_contiguous", "aten::storage_offset"};
  return is_any_of(kinds, node);
}

/** Whether the outputs are row-major if all inputs are. */
bool keeps_order(const Node* node) {
  static const Kinds kinds = {
      "aten::view", "aten::reshape", "aten::flatten", "aten::unsqueeze", "aten::squeeze", "aten::expand", "aten::expand_as",
      "aten::slice", "aten::select", "aten::chunk", "aten::split", "aten::split_with_sizes", "aten::unbind", "prim::ListUnpack",
      "prim::ConstantChunk", "prim::ListConstruct", "aten::stack", "aten::layer_norm", "aten::softmax", "aten::constant_pad_nd",
      "aten::pad"};
  return is_any_of(kinds, node);
}

/** Whether the outputs are row-major for any inputs. */
bool makes_order(const Node* node) {
  static const Kinds kinds = {"aten::linear", PackedLinear::OPERATOR, IN_ORDER};
  if (node->kind() == c10::aten::contiguous) {
    return torch::jit::toIValue(node->input(1)) == c10::IValue(static_cast<int64_t>(at::MemoryFormat::Contiguous));
  }
  return is_any_of(kinds, node);
}

/**
 * Lets packed convolutions return oneDNN's layout. Nodes that do not accept any layout get a row-major copy of the
 * result.
 */
class LayoutKeeper {
 public:
  explicit LayoutKeeper(const torch::jit::Module& module)
      : module_(module),
        graph_(*module.get_method("forward").graph()),
        frees_parts_(!any_node(graph_.block(), asks_for_strides)) {}

  void run() {
    for (auto* input : graph_.inputs()) layouts_[input] = Layout::in_order;
    visit(graph_.block());
  }

 private:
  enum class Layout { unknown, in_order, free };

  void visit(torch::jit::Block* block) {
    // The loop inserts nodes, so it iterates over a copy of the list.
    std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
    nodes.push_back(block->return_node());
    for (auto* node : nodes) {
      for (auto* inner : node->blocks()) visit(inner);
      const Layout layout = visit(node);
      if (layout == Layout::unknown) continue;
      for (auto* output : node->outputs()) layouts_[output] = layout;
    }
  }

  Layout visit(Node* node) {
    if (node->kind() == c10::prim::Constant) return is_in_order(node) ? Layout::in_order : Layout::unknown;
    const bool knows_all = all_inputs(node, [](Layout layout) { return layout != Layout::unknown; });
    const bool is_as_ever = all_inputs(node, [](Layout layout) { return layout != Layout::free; });
    if (node->kind().toQualString() == std::string_view(PackedConvolution::OPERATOR)) {
      if (is_channels_last(node) || !knows_all) return Layout::unknown;
      const torch::jit::WithInsertPoint before(node);
      node->replaceInput(2, graph_.insertConstant(true));
      return Layout::free;
    }
    if ((keeps_layout(node) || (frees_parts_ && gives_parts(node))) && knows_all) return is_as_ever ? Layout::in_order : Layout::free;
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      if (layout_of(node->input(i)) == Layout::free && !reads_only_metadata(node, i)) node->replaceInput(i, in_order(node, node->input(i)));
    }
    return makes_order(node) || (keeps_order(node) && knows_all) ? Layout::in_order : Layout::unknown;
  }

  Layout layout_of(const torch::jit::Value* value) const {
    const auto found = layouts_.find(value);
    return found == layouts_.end() ? Layout::unknown : found->second;
  }

  template <class Test>
  bool all_inputs(const Node* node, const Test& test) const {
    const auto inputs = node->inputs();
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](const torch::jit::Value* input) { return !has_tensors(input->type()) || test(layout_of(input)); });
  }

  static bool is_in_order(const Node* constant) {
    const auto value = torch::jit::toIValue(constant->output());
    return value && (!value->isTensor() || (value->toTensor().layout() == at::kStrided && value->toTensor().is_contiguous()));
  }

  bool is_channels_last(const Node* convolution) const {
    const auto layer = module_.attr(convolution->input(1)->node()->s(c10::attr::name));
    return layer.toCustomClass<PackedConvolution>()->is_channels_last();
  }

  /** The value as a row-major tensor, for use by `node`. */
  torch::jit::Value* in_order(Node* node, torch::jit::Value* value) {
    auto*& made = in_order_[{value, node->owningBlock()}];
    if (made == nullptr) {
      const torch::jit::WithInsertPoint before(node);
      made = graph_.insertNode(graph_.create(c10::Symbol::fromQualString(IN_ORDER), {value}))->output();
    }
    return made;
  }

  const torch::jit::Module& module_;
  Graph& graph_;
  bool frees_parts_;
  std::unordered_map<const torch::jit::Value*, Layout> layouts_;
  std::map<std::pair<torch::jit::Value*, torch::jit::Block*>, torch::jit::Value*> in_order_;
};

}  // namespace

void free_layout(const torch::jit::Module& frozen) { LayoutKeeper(frozen).run(); }

}  // namespace sconce
