#include "layer_packing.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph.h"
#include "packed_layers.h"

namespace sconce {
namespace {

using torch::jit::Graph;
using torch::jit::Node;

/** Of layers with fewer the call of oneDNN (10 µs) takes longer than what it saves. */
constexpr int64_t LEAST_LINEAR_WEIGHTS = 1 << 16;
constexpr int64_t LEAST_CONVOLUTION_WEIGHTS = 1 << 9;

/** What a layer is called with, by the names of its arguments, if it is constant. */
class Arguments {
 public:
  explicit Arguments(const Node* node) : node_(node) {}

  std::optional<c10::IValue> constant(const char* name) const {
    const auto place = node_->schema().argumentIndexWithName(name);
    if (!place) return std::nullopt;
    return torch::jit::toIValue(node_->input(*place));
  }

  bool is(const char* name, bool expected) const {
    const auto value = constant(name);
    return value && value->isBool() && value->toBool() == expected;
  }

  std::optional<Pair> pair(const char* name) const {
    const auto value = constant(name);
    if (!value || !value->isIntList()) return std::nullopt;
    const auto numbers = value->toIntVector();
    if (numbers.size() == 1) return Pair{numbers[0], numbers[0]};
    if (numbers.size() == 2) return Pair{numbers[0], numbers[1]};
    return std::nullopt;
  }

  std::optional<int64_t> number(const char* name) const {
    const auto value = constant(name);
    if (!value || !value->isInt()) return std::nullopt;
    return value->toInt();
  }

 private:
  const Node* node_;
};

/** float16 is left to libtorch: few processors compute with it. */
bool can_be_packed(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16) && tensor.layout() == at::kStrided && tensor.device().is_cpu();
}

struct Constants {
  at::Tensor weight;
  std::optional<at::Tensor> bias;
};

/** Weights with so many dimensions and elements, the outputs first, and the bias if there is one. */
std::optional<Constants> constants(const std::optional<c10::IValue>& weight, const std::optional<c10::IValue>& bias,
                                   int64_t dimensions, int64_t least) {
  if (!weight || !weight->isTensor() || !bias) return std::nullopt;
  const at::Tensor& given = weight->toTensor();
  if (!can_be_packed(given) || given.dim() != dimensions || given.numel() < least) return std::nullopt;
  if (bias->isNone()) return Constants{given, std::nullopt};
  if (!bias->isTensor()) return std::nullopt;
  const at::Tensor& added = bias->toTensor();
  if (added.scalar_type() != given.scalar_type() || added.dim() != 1 || added.size(0) != given.size(0)) return std::nullopt;
  return Constants{given, added};
}

/** A layer, and which arguments of its node are its input and its weights. */
template <class Layer>
struct Packed {
  c10::intrusive_ptr<Layer> layer;
  const char* input;
  const char* weight;
};

/** A product with a matrix, whose columns are the outputs, is a linear layer whose weights are written the other way round. */
std::optional<c10::IValue> transposed(const std::optional<c10::IValue>& matrix) {
  if (!matrix || !matrix->isTensor() || matrix->toTensor().dim() != 2) return std::nullopt;
  return c10::IValue(matrix->toTensor().t());
}

Packed<PackedLinear> packed_linear(const Node* node) {
  const Arguments arguments(node);
  const auto layer = [](const auto& weight, const auto& bias) -> c10::intrusive_ptr<PackedLinear> {
    const auto given = constants(weight, bias, 2, LEAST_LINEAR_WEIGHTS);
    return given ? c10::make_intrusive<PackedLinear>(given->weight, given->bias) : c10::intrusive_ptr<PackedLinear>();
  };
  const std::optional<c10::IValue> none = c10::IValue();
  if (node->kind() == c10::aten::linear) {
    return {layer(arguments.constant("weight"), arguments.constant("bias")), "input", "weight"};
  }
  // What exported programs have in their place that were decomposed, and some networks by themselves.
  if (node->kind() == c10::aten::mm) return {layer(transposed(arguments.constant("mat2")), none), "self", "mat2"};
  if (node->kind() == c10::aten::matmul) return {layer(transposed(arguments.constant("other")), none), "self", "other"};
  const bool is_plain_sum = arguments.number("beta") == 1 && arguments.number("alpha") == 1;
  if (!is_plain_sum) return {};
  return {layer(transposed(arguments.constant("mat2")), arguments.constant("self")), "mat1", "mat2"};
}

Packed<PackedConvolution> packed_convolution(const Node* node) {
  const Arguments arguments(node);
  const auto given = constants(arguments.constant("weight"), arguments.constant("bias"), 4, LEAST_CONVOLUTION_WEIGHTS);
  const auto stride = arguments.pair("stride");
  const auto padding = arguments.pair("padding");
  const auto dilation = arguments.pair("dilation");
  const auto groups = arguments.number("groups");
  if (!given || !stride || !padding || !dilation || !groups) return {};
  // As tracing and exporting write them; what scripting writes has none.
  if (node->kind() != c10::aten::conv2d && !arguments.is("transposed", false)) return {};
  const ConvolutionShape shape{*stride, *padding, *dilation, *groups};
  return {c10::make_intrusive<PackedConvolution>(given->weight, given->bias, shape), "input", "weight"};
}

/** The same layer, packed, in the place of `node`. */
template <class Layer>
void replace(torch::jit::Module& module, Node* node, const Packed<Layer>& by) {
  auto* const graph = node->owningGraph();
  // An attribute, as packed layers of quantized modules are: passes over graphs compare constants and fold them, which these cannot be.
  const std::string name = "packed_" + std::to_string(module.type()->numAttributes());
  module.register_attribute(name, c10::getCustomClassType<c10::intrusive_ptr<Layer>>(), c10::IValue(by.layer));
  const torch::jit::WithInsertPoint before(node);
  auto* const attribute = graph->insertGetAttr(graph->inputs()[0], name);
  auto* const packed = graph->insertNode(graph->create(c10::Symbol::fromQualString(Layer::OPERATOR), {node->namedInput(by.input), attribute}));
  if (const auto stack = node->callstack()) packed->setCallStack(*stack);
  packed->setSourceRange(node->sourceRange());
  node->output()->replaceAllUsesWith(packed->output());
  auto* const weight = node->namedInput(by.weight);
  node->destroy();
  // Freed before the next ones are packed, so that no more than a layer is there twice.
  if (!weight->hasUses()) weight->node()->destroy();
}

bool is_convolution(const Node* node) {
  const auto kind = node->kind();
  return kind == c10::aten::conv2d || kind == c10::aten::_convolution || kind == c10::aten::convolution;
}

std::vector<Node*> all(Graph& graph, bool (*test)(const Node*)) {
  std::vector<Node*> found;
  any_node(graph.block(), [&](Node* node) {
    if (test(node)) found.push_back(node);
    return false;
  });
  return found;
}

bool is_packed_convolution(const Node* node) { return node->kind().toQualString() == std::string_view(PackedConvolution::OPERATOR); }

/** Of a list of tensors: whether nobody has it but nodes that keep the layout of the tensors in it. */
bool is_taken_apart(const torch::jit::Value* list) {
  const auto& uses = list->uses();
  return std::all_of(uses.begin(), uses.end(), [](const auto& use) {
    return use.user->kind() == c10::aten::cat || use.user->kind() == c10::prim::ListUnpack;
  });
}

/** Whether a node gives tensors that mean the same however those that it takes lie in memory. */
bool keeps_layout(const Node* node) {
  static const std::unordered_set<std::string_view> kinds = {
      "aten::conv2d", "aten::_convolution", "aten::convolution", "aten::batch_norm", "aten::group_norm",
      "aten::max_pool2d", "aten::avg_pool2d", "aten::adaptive_avg_pool2d", "aten::adaptive_max_pool2d",
      "aten::upsample_nearest2d", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d", "aten::pixel_shuffle",
      "aten::relu", "aten::relu6", "aten::leaky_relu", "aten::prelu", "aten::elu", "aten::gelu", "aten::silu", "aten::mish",
      "aten::hardtanh", "aten::hardswish", "aten::hardsigmoid", "aten::sigmoid", "aten::tanh", "aten::softplus",
      "aten::clamp", "aten::clamp_min", "aten::clamp_max", "aten::dropout",
      "aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::div", "aten::neg", "aten::abs", "aten::exp", "aten::sqrt",
      "aten::pow", "aten::mean", "aten::cat", "aten::slice", "aten::narrow", "aten::chunk", "aten::split", "aten::split_with_sizes",
      "aten::unbind", "aten::conv_transpose2d", "prim::ListConstruct", "prim::ListUnpack"};
  if (kinds.count(node->kind().toQualString()) == 0) return false;
  const auto outputs = node->outputs();
  return std::all_of(outputs.begin(), outputs.end(), [](const torch::jit::Value* output) {
    return !output->type()->isSubtypeOf(*c10::ListType::ofTensors()) || is_taken_apart(output);
  });
}

/** Whether a node may give another result for tensors that lie otherwise, though contiguous ones. */
bool asks_for_layout(Node* node) {
  static const std::unordered_set<std::string_view> kinds = {"aten::as_strided", "aten::stride", "aten::is_contiguous",
                                                             "aten::storage_offset"};
  return kinds.count(node->kind().toQualString()) != 0;
}

/** Has what packed convolutions give laid out anew for whoever might ask how it lies. */
class LayoutKeeper {
 public:
  explicit LayoutKeeper(Graph& graph) : graph_(graph) {}

  void visit(torch::jit::Block* block) {
    // Nodes are put in between while they are gone through.
    std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
    nodes.push_back(block->return_node());
    for (auto* node : nodes) {
      for (auto* inner : node->blocks()) visit(inner);
      const auto inputs = node->inputs();
      const bool has = std::any_of(inputs.begin(), inputs.end(), [&](torch::jit::Value* value) { return changed_.count(value) != 0; });
      if (is_packed_convolution(node) || (has && keeps_layout(node))) {
        for (auto* output : node->outputs()) changed_.insert(output);
      } else if (has) {
        for (size_t i = 0; i < node->inputs().size(); ++i) {
          if (changed_.count(node->input(i)) != 0) node->replaceInput(i, restored(node, node->input(i)));
        }
      }
    }
  }

 private:
  torch::jit::Value* restored(Node* node, torch::jit::Value* value) {
    const torch::jit::WithInsertPoint before(node);
    auto* const format = graph_.insertConstant(static_cast<int64_t>(at::MemoryFormat::Contiguous));
    return graph_.insertNode(graph_.create(c10::aten::contiguous, {value, format}))->output();
  }

  Graph& graph_;
  /** Those that may not lie as they would have. */
  std::unordered_set<torch::jit::Value*> changed_;
};

bool is_linear(const Node* node) {
  const auto kind = node->kind();
  return kind == c10::aten::linear || kind == c10::aten::mm || kind == c10::aten::matmul || kind == c10::aten::addmm;
}

/** Those of the kind that are worth it. */
template <class Layer>
size_t pack_all(torch::jit::Module& module, bool (*is_of_kind)(const Node*), Packed<Layer> (*pack)(const Node*)) {
  size_t count = 0;
  for (auto* node : all(*module.get_method("forward").graph(), is_of_kind)) {
    try {
      const auto packed = pack(node);
      if (!packed.layer) continue;
      replace(module, node, packed);
      count += 1;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      // What oneDNN does not take, here or on this processor, stays as it is.
    }
  }
  return count;
}

size_t pack_convolutions(torch::jit::Module& module) {
  const auto graph = module.get_method("forward").graph();
  if (all(*graph, is_convolution).empty()) return 0;
  torch::jit::RemoveTensorMutation(graph);
  // What is laid out anew is another tensor: who writes into it, or into a view of it, would not be heard.
  if (any_node(graph->block(), [](Node* node) { return writes(node) || asks_for_layout(node); })) return 0;
  const size_t count = pack_all(module, is_convolution, packed_convolution);
  LayoutKeeper(*graph).visit(graph->block());
  return count;
}

}  // namespace

size_t pack_layers(torch::jit::Module& frozen) {
  if (!can_pack()) return 0;
  return pack_all(frozen, is_linear, packed_linear) + pack_convolutions(frozen);
}

}  // namespace sconce
