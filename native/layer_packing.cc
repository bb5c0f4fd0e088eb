#include "passes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device.h"
#include "graph.h"
#include "packed_layers.h"

namespace sconce {
namespace {

using torch::jit::Graph;
using torch::jit::Node;

/** Layers with fewer weights are not packed: a call of oneDNN costs 10 µs, more than packing gains. */
constexpr int64_t LEAST_LINEAR_WEIGHTS = 1 << 17;
constexpr int64_t LEAST_CONVOLUTION_WEIGHTS = 1 << 9;

/**
 * After this many freed bytes, memory is returned to the system. Packed weights are page-aligned, so they cannot reuse
 * freed blocks.
 */
constexpr size_t MOST_FREED_BYTES = 64 << 20;

/** A pair of constant integers, or one for both; none for any other argument. */
std::optional<Pair> pair_argument(const Node* node, const char* name) {
  const auto value = constant_argument(node, name);
  if (!value || !value->isIntList()) return std::nullopt;
  const auto numbers = value->toIntVector();
  if (numbers.size() == 1) return Pair{numbers[0], numbers[0]};
  if (numbers.size() == 2) return Pair{numbers[0], numbers[1]};
  return std::nullopt;
}

/**
 * Whether a tensor has a form that oneDNN can pack. Layers of float16 stay with libtorch, because few processors
 * compute with it.
 */
bool can_be_packed(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16) && tensor.layout() == at::kStrided && tensor.device().is_cpu();
}

struct Constants {
  at::Tensor weight;
  std::optional<at::Tensor> bias;
};

/**
 * The weights and bias of a layer. None if one is not constant or cannot be packed, or if the weights do not have
 * `dimensions` dimensions and at least `least` elements.
 */
std::optional<Constants> constants(const std::optional<c10::IValue>& weight, const std::optional<c10::IValue>& bias,
                                   int64_t dimensions, int64_t least) {
  if (!weight || !weight->isTensor() || !bias) return std::nullopt;
  const at::Tensor& given = weight->toTensor();
  if (!can_be_packed(given) || given.dim() != dimensions || given.numel() < least) return std::nullopt;
  if (bias->isNone()) return Constants{given, std::nullopt};
  if (!bias->isTensor()) return std::nullopt;
  const at::Tensor& added = bias->toTensor();
  if (!can_be_packed(added) || added.scalar_type() != given.scalar_type()) return std::nullopt;
  if (added.dim() != 1 || added.size(0) != given.size(0)) return std::nullopt;
  return Constants{given, added};
}

/** A layer that can be packed, with the names of its arguments. `bias` is null for an operator without a bias. */
template <class Layer>
struct Found {
  Constants constants;
  typename Layer::Form form;
  const char* input;
  const char* weight;
  const char* bias;
};

/** Transposes the constant matrix of a product, which gives the weights of an equal linear layer. */
std::optional<c10::IValue> transposed(const std::optional<c10::IValue>& matrix) {
  if (!matrix || !matrix->isTensor() || matrix->toTensor().dim() != 2) return std::nullopt;
  return c10::IValue(matrix->toTensor().t());
}

std::optional<Found<PackedLinear>> linear_of(const Node* node) {
  if (writes(node)) return std::nullopt;  // `out` variants write to an argument
  const auto found = [&](Product product, const char* input, const char* weight, const char* bias) -> std::optional<Found<PackedLinear>> {
    const auto matrix = constant_argument(node, weight);
    const auto given = constants(product == Product::linear ? matrix : transposed(matrix), bias == nullptr ? std::optional(c10::IValue()) : constant_argument(node, bias),
                                 2, LEAST_LINEAR_WEIGHTS);
    if (!given) return std::nullopt;
    return Found<PackedLinear>{*given, product, input, weight, bias};
  };
  switch (node->kind()) {
    case c10::aten::linear: return found(Product::linear, "input", "weight", "bias");
    // Exported programs and some networks write a linear layer as a matrix product.
    case c10::aten::mm: return found(Product::mm, "self", "mat2", nullptr);
    case c10::aten::matmul: return found(Product::matmul, "self", "other", nullptr);
    case c10::aten::addmm: {
      const bool is_plain_sum = constant_argument(node, "beta") == c10::IValue(1) && constant_argument(node, "alpha") == c10::IValue(1);
      return is_plain_sum ? found(Product::addmm, "mat1", "mat2", "self") : std::nullopt;
    }
    default: return std::nullopt;
  }
}

bool is_convolution(const Node* node) {
  const auto kind = node->kind();
  return kind == c10::aten::conv2d || kind == c10::aten::_convolution || kind == c10::aten::convolution;
}

std::optional<Found<PackedConvolution>> convolution_of(const Node* node) {
  if (!is_convolution(node)) return std::nullopt;
  const auto given = constants(constant_argument(node, "weight"), constant_argument(node, "bias"), 4, LEAST_CONVOLUTION_WEIGHTS);
  const auto stride = pair_argument(node, "stride");
  const auto padding = pair_argument(node, "padding");
  const auto dilation = pair_argument(node, "dilation");
  const auto groups = constant_argument(node, "groups");
  if (!given || !stride || !padding || !dilation || !groups || !groups->isInt()) return std::nullopt;
  // oneDNN may divide by zero for arguments that libtorch refuses.
  const auto are_at_least = [](const Pair& pair, int64_t least) { return pair[0] >= least && pair[1] >= least; };
  if (!are_at_least(*stride, 1) || !are_at_least(*padding, 0) || !are_at_least(*dilation, 1)) return std::nullopt;
  const int64_t count = groups->toInt();
  if (count < 1 || given->weight.size(0) % count != 0) return std::nullopt;
  const bool is_conv2d = node->kind() == c10::aten::conv2d;
  // Traced and exported convolutions have the argument `transposed`; scripted networks call conv2d, which lacks it.
  if (!is_conv2d && constant_argument(node, "transposed") != c10::IValue(false)) return std::nullopt;
  return Found<PackedConvolution>{*given, {*stride, *padding, *dilation, count, is_conv2d}, "input", "weight", "bias"};
}

/** Packs the layers of a module. Nodes with the same weights and equal arguments share one packed layer. */
template <class Layer>
class Packer {
 public:
  explicit Packer(torch::jit::Module& module) : module_(module) {}

  size_t count() const { return known_.size(); }

  /** Replaces `node` by its packed layer. */
  void replace(Node* node, const Found<Layer>& found) {
    auto* const graph = node->owningGraph();
    const std::string name = name_of(node, found);
    const torch::jit::WithInsertPoint before(node);
    std::vector<torch::jit::Value*> inputs = {node->namedInput(found.input), graph->insertGetAttr(graph->inputs()[0], name)};
    if constexpr (std::is_same_v<Layer, PackedConvolution>) inputs.push_back(graph->insertConstant(false));
    auto* const packed = graph->insertNode(graph->create(c10::Symbol::fromQualString(Layer::OPERATOR), inputs));
    packed->copyMetadata(node);
    node->output()->replaceAllUsesWith(packed->output());
    auto* const weight = node->namedInput(found.weight);
    node->destroy();
    if (weight->hasUses()) return;
    // Frees the plain weights before the next layer is packed, so that memory never holds all weights twice.
    weight->node()->destroy();
    freed_bytes_ += found.constants.weight.nbytes();
  }

  void give_back_memory() {
    if (freed_bytes_ < MOST_FREED_BYTES) return;
    freed_bytes_ = 0;
    give_back_free_memory();
  }

 private:
  /** A packed layer, with the values of its weight and bias in the graph. They identify the layer, even once destroyed. */
  struct Known {
    typename Layer::Form form;
    const torch::jit::Value* weight;
    const torch::jit::Value* bias;
    std::string name;
  };

  /** Packs a layer, or finds the packed layer of the same weights. Returns the name of its attribute. */
  std::string name_of(const Node* node, const Found<Layer>& found) {
    const auto* const weight = node->namedInput(found.weight);
    const auto* const bias = found.bias == nullptr ? nullptr : node->namedInput(found.bias);
    const auto same = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
      return known.form == found.form && known.weight == weight && known.bias == bias;
    });
    if (same != known_.end()) return same->name;
    // Attributes, not constants: graph passes compare and fold constants, which fails for custom objects.
    const std::string name = "packed_" + std::to_string(module_.type()->numAttributes());
    const auto layer = c10::make_intrusive<Layer>(found.constants.weight, found.constants.bias, found.form);
    module_.register_attribute(name, c10::getCustomClassType<c10::intrusive_ptr<Layer>>(), c10::IValue(layer));
    known_.push_back({found.form, weight, bias, name});
    return name;
  }

  torch::jit::Module& module_;
  std::vector<Known> known_;
  size_t freed_bytes_ = 0;
};

/**
 * Packs the layers that `find` accepts, except layers that oneDNN refuses. Returns the number of
 * packed layers.
 */
template <class Layer>
size_t pack_all(torch::jit::Module& module, std::optional<Found<Layer>> (*find)(const Node*)) {
  Packer<Layer> packer(module);
  auto* const block = module.get_method("forward").graph()->block();
  for (auto* node : nodes_of(block, [&](const Node* each) { return find(each).has_value(); })) {
    try {
      packer.replace(node, *find(node));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      // oneDNN refuses some layers on some processors. They stay unpacked.
    }
    packer.give_back_memory();
  }
  return packer.count();
}

/**
 * Whether an operator always returns new memory. The list is needed because schemas of composite operators may be wrong:
 * `type_as` and `einsum` may return their input.
 */
bool makes_memory(const Node* node) {
  static const Kinds known = {
      "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution", "aten::conv_transpose1d", "aten::conv_transpose2d",
      "aten::conv_transpose3d", "aten::linear", "aten::matmul", "aten::batch_norm", "aten::group_norm", "aten::layer_norm",
      "aten::instance_norm", "aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d", "aten::avg_pool1d", "aten::adaptive_avg_pool1d",
      "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d", "aten::upsample_nearest1d", "aten::upsample_nearest2d",
      "aten::upsample_nearest3d", "aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d",
      "aten::upsample_trilinear3d", "aten::relu6", "aten::selu", "aten::prelu", "aten::softmax", "aten::log_softmax", "aten::pad",
      "aten::where", "aten::mean", "aten::square", "aten::multiply", "aten::subtract", "aten::true_divide"};
  if (is_any_of(known, node)) return true;
  const auto* schema = node->maybeSchema();
  if (schema == nullptr) return false;
  const auto found = c10::Dispatcher::singleton().findSchema(schema->operator_name());
  return found && !found->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

/** Whether the node of the value certainly allocates its memory, so that no earlier value shares it. */
bool is_made(const torch::jit::Value* value) {
  const auto* node = value->node();
  if (node->kind() == c10::prim::If) {
    const auto blocks = node->blocks();
    return std::all_of(blocks.begin(), blocks.end(), [&](const auto* block) { return is_made(block->outputs()[value->offset()]); });
  }
  if (node->kind() == c10::prim::ListUnpack) return is_made(node->input());
  return node->kind() == c10::prim::ListConstruct || makes_memory(node);
}

/** Replaces in-place operators on unshared tensors by operators that return a new tensor of the same dtype. */
void remove_writes(const std::shared_ptr<Graph>& graph) {
  // A scope marks the nodes that write. Their replacements inherit it, and it has no other effect.
  const auto scope = c10::make_intrusive<torch::jit::Scope>();
  for (auto* node : nodes_of(graph->block(), writes)) node->setScope(scope);
  torch::jit::RemoveTensorMutation(graph, [](Node* node) { return writes(node) && is_made(node->input(0)); });
  for (auto* node : nodes_of(graph->block(), [&](Node* each) { return each->scope() == scope && !writes(each); })) {
    // Replaced appends to lists are skipped: they have no dtype.
    if (!node->output()->type()->isSubtypeOf(*c10::TensorType::get())) continue;
    const torch::jit::WithInsertPoint after(node->next());
    auto* const kept = graph->insertNode(graph->create(c10::Symbol::fromQualString(AS_WRITTEN), {node->output(), node->input(0)}));
    node->output()->replaceAllUsesAfterNodeWith(kept, kept->output());
  }
}

size_t pack_convolutions(torch::jit::Module& module) {
  const auto graph = module.get_method("forward").graph();
  if (!any_node(graph->block(), [](const Node* node) { return convolution_of(node).has_value(); })) return 0;
  remove_writes(graph);
  // Packed layers may copy tensors to another layout, so writes to a tensor or its views would be lost.
  if (any_node(graph->block(), writes)) return 0;
  const size_t count = pack_all<PackedConvolution>(module, convolution_of);
  free_layout(module);
  return count;
}

}  // namespace

size_t pack_layers(torch::jit::Module& frozen) {
  if (!can_pack()) return 0;
  const size_t linear = pack_all<PackedLinear>(frozen, linear_of);
  return linear + pack_convolutions(frozen);
}

}  // namespace sconce
