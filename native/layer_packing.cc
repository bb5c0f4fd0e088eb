#include "layer_packing.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "free_memory.h"
#include "graph.h"
#include "packed_layers.h"

namespace sconce {
namespace {

using torch::jit::Graph;
using torch::jit::Node;

/** Of layers with fewer the call of oneDNN (10 µs) takes longer than what it saves. */
constexpr int64_t LEAST_LINEAR_WEIGHTS = 1 << 17;
constexpr int64_t LEAST_CONVOLUTION_WEIGHTS = 1 << 9;

/** So many bytes of weights are freed before they are given back: packed ones, which lie at whole pages, do not fit into their places. */
constexpr size_t MOST_FREED_BYTES = 64 << 20;

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
  if (!can_be_packed(added) || added.scalar_type() != given.scalar_type()) return std::nullopt;
  if (added.dim() != 1 || added.size(0) != given.size(0)) return std::nullopt;
  return Constants{given, added};
}

/** A layer that can be packed, and which arguments of its node are its input and its weights. */
template <class Layer>
struct Found {
  Constants constants;
  typename Layer::Form form;
  const char* input;
  const char* weight;
};

/** A product with a matrix, whose columns are the outputs, is a linear layer whose weights are written the other way round. */
std::optional<c10::IValue> transposed(const std::optional<c10::IValue>& matrix) {
  if (!matrix || !matrix->isTensor() || matrix->toTensor().dim() != 2) return std::nullopt;
  return c10::IValue(matrix->toTensor().t());
}

std::optional<Found<PackedLinear>> linear_of(const Node* node) {
  if (writes(node)) return std::nullopt;  // `out`
  const Arguments arguments(node);
  const auto found = [](const auto& weight, const auto& bias, Product product, const char* input,
                        const char* name) -> std::optional<Found<PackedLinear>> {
    const auto given = constants(weight, bias, 2, LEAST_LINEAR_WEIGHTS);
    if (!given) return std::nullopt;
    return Found<PackedLinear>{*given, product, input, name};
  };
  const std::optional<c10::IValue> none = c10::IValue();
  switch (node->kind()) {
    case c10::aten::linear: return found(arguments.constant("weight"), arguments.constant("bias"), Product::linear, "input", "weight");
    // What exported programs have in their place that were decomposed, and some networks by themselves.
    case c10::aten::mm: return found(transposed(arguments.constant("mat2")), none, Product::mm, "self", "mat2");
    case c10::aten::matmul: return found(transposed(arguments.constant("other")), none, Product::matmul, "self", "other");
    case c10::aten::addmm: {
      const auto bias = arguments.constant("self");
      const bool is_plain_sum = arguments.number("beta") == 1 && arguments.number("alpha") == 1;
      if (!is_plain_sum || !bias || bias->isNone()) return std::nullopt;
      return found(transposed(arguments.constant("mat2")), bias, Product::addmm, "mat1", "mat2");
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
  const Arguments arguments(node);
  const auto given = constants(arguments.constant("weight"), arguments.constant("bias"), 4, LEAST_CONVOLUTION_WEIGHTS);
  const auto stride = arguments.pair("stride");
  const auto padding = arguments.pair("padding");
  const auto dilation = arguments.pair("dilation");
  const auto groups = arguments.number("groups");
  if (!given || !stride || !padding || !dilation || !groups) return std::nullopt;
  // What libtorch refuses at each run stays as it is: oneDNN may divide by zero.
  const auto are_at_least = [](const Pair& pair, int64_t least) { return pair[0] >= least && pair[1] >= least; };
  if (!are_at_least(*stride, 1) || !are_at_least(*padding, 0) || !are_at_least(*dilation, 1)) return std::nullopt;
  if (*groups < 1 || given->weight.size(0) % *groups != 0) return std::nullopt;
  const bool is_conv2d = node->kind() == c10::aten::conv2d;
  // As tracing and exporting write them; what scripting writes has none.
  if (!is_conv2d && !arguments.is("transposed", false)) return std::nullopt;
  return Found<PackedConvolution>{*given, {*stride, *padding, *dilation, *groups, is_conv2d}, "input", "weight"};
}

/** Where a tensor lies in memory, which is freed nonetheless. */
class Place {
 public:
  explicit Place(const at::Tensor& tensor)
      : storage_(tensor.storage().getWeakStorageImpl()),
        offset_(tensor.storage_offset()),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()) {}

  bool is_of(const at::Tensor& tensor) const {
    // A weak pointer keeps the address from being given to another storage.
    return storage_._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() && offset_ == tensor.storage_offset() &&
           tensor.sizes() == c10::IntArrayRef(sizes_) && tensor.strides() == c10::IntArrayRef(strides_);
  }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  int64_t offset_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
};

/** Packs layers of a module: once for all nodes that have the same one. */
template <class Layer>
class Packer {
 public:
  explicit Packer(torch::jit::Module& module) : module_(module) {}

  size_t count() const { return known_.size(); }

  /** Puts the packed layer in the place of `node`. */
  void replace(Node* node, const Found<Layer>& found) {
    auto* const graph = node->owningGraph();
    const std::string name = name_of(found);
    const torch::jit::WithInsertPoint before(node);
    std::vector<torch::jit::Value*> inputs = {node->namedInput(found.input), graph->insertGetAttr(graph->inputs()[0], name)};
    if constexpr (std::is_same_v<Layer, PackedConvolution>) inputs.push_back(graph->insertConstant(false));
    auto* const packed = graph->insertNode(graph->create(c10::Symbol::fromQualString(Layer::OPERATOR), inputs));
    packed->copyMetadata(node);
    node->output()->replaceAllUsesWith(packed->output());
    auto* const weight = node->namedInput(found.weight);
    node->destroy();
    if (weight->hasUses()) return;
    // Freed before the next ones are packed, so that not all are there twice.
    weight->node()->destroy();
    freed_bytes_ += found.constants.weight.nbytes();
  }

  void give_back_memory() {
    if (freed_bytes_ < MOST_FREED_BYTES) return;
    freed_bytes_ = 0;
    give_back_free_memory();
  }

 private:
  struct Known {
    typename Layer::Form form;
    Place weight;
    std::optional<Place> bias;
    std::string name;
  };

  static bool are_same(const Known& known, const Found<Layer>& found) {
    const auto& [weight, bias] = found.constants;
    if (known.bias.has_value() != bias.has_value() || (bias && !known.bias->is_of(*bias))) return false;
    return known.form == found.form && known.weight.is_of(weight);
  }

  /** Of the attribute that has the layer. */
  std::string name_of(const Found<Layer>& found) {
    const auto same = std::find_if(known_.begin(), known_.end(), [&](const Known& known) { return are_same(known, found); });
    if (same != known_.end()) return same->name;
    const auto& [weight, bias] = found.constants;
    // An attribute, as packed layers of quantized modules are: passes over graphs compare constants and fold them, which these cannot be.
    const std::string name = "packed_" + std::to_string(module_.type()->numAttributes());
    const auto layer = c10::make_intrusive<Layer>(weight, bias, found.form);
    module_.register_attribute(name, c10::getCustomClassType<c10::intrusive_ptr<Layer>>(), c10::IValue(layer));
    known_.push_back({found.form, Place(weight), bias ? std::optional(Place(*bias)) : std::nullopt, name});
    return name;
  }

  torch::jit::Module& module_;
  std::vector<Known> known_;
  size_t freed_bytes_ = 0;
};

std::vector<Node*> all(Graph& graph, const std::function<bool(Node*)>& test) {
  std::vector<Node*> found;
  any_node(graph.block(), [&](Node* node) {
    if (test(node)) found.push_back(node);
    return false;
  });
  return found;
}

/** All layers of the graph that are found, but for those that oneDNN does not take. */
template <class Layer>
size_t pack_all(torch::jit::Module& module, std::optional<Found<Layer>> (*find)(const Node*)) {
  Packer<Layer> packer(module);
  for (auto* node : all(*module.get_method("forward").graph(), [&](const Node* each) { return find(each).has_value(); })) {
    try {
      packer.replace(node, *find(node));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      // It stays as it is, here or on this processor.
    }
    packer.give_back_memory();
  }
  return packer.count();
}

bool has(const std::unordered_set<std::string_view>& kinds, const Node* node) { return kinds.count(node->kind().toQualString()) != 0; }

/** Whether nobody has the lists of tensors among these but nodes that join the tensors or take them one by one. */
bool are_taken_apart(at::ArrayRef<const torch::jit::Value*> outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const torch::jit::Value* output) {
    if (!output->type()->isSubtypeOf(*c10::ListType::ofTensors())) return true;
    const auto& uses = output->uses();
    return std::all_of(uses.begin(), uses.end(), [](const auto& use) {
      return use.user->kind() == c10::aten::cat || use.user->kind() == c10::prim::ListUnpack;
    });
  });
}

/** Whether all that a node gives lies as what it takes, and means the same however that is. */
bool keeps_layout(const Node* node) {
  static const std::unordered_set<std::string_view> kinds = {
      "aten::conv2d", "aten::_convolution", "aten::convolution", "aten::batch_norm", "aten::group_norm",
      "aten::max_pool2d", "aten::avg_pool2d", "aten::adaptive_avg_pool2d", "aten::adaptive_max_pool2d",
      "aten::upsample_nearest2d", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d", "aten::pixel_shuffle",
      "aten::relu", "aten::relu6", "aten::leaky_relu", "aten::prelu", "aten::elu", "aten::gelu", "aten::silu", "aten::mish",
      "aten::hardtanh", "aten::hardswish", "aten::hardsigmoid", "aten::sigmoid", "aten::tanh", "aten::softplus",
      "aten::clamp", "aten::clamp_min", "aten::clamp_max", "aten::dropout",
      "aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::div", "aten::neg", "aten::abs", "aten::exp", "aten::sqrt",
      "aten::pow", "aten::mean", "aten::cat", "aten::conv_transpose2d", "prim::ListConstruct", AS_WRITTEN};
  return has(kinds, node) && are_taken_apart(node->outputs());
}

/** The same of one that gives parts of what it takes: they lie in its order, though not one after the other. */
bool gives_parts(const Node* node) {
  static const std::unordered_set<std::string_view> kinds = {"aten::slice", "aten::narrow", "aten::chunk", "aten::split",
                                                             "aten::split_with_sizes", "prim::ListUnpack"};
  return has(kinds, node) && are_taken_apart(node->outputs());
}

/** Whether a node may tell parts from tensors that were made of them. */
bool asks_for_strides(const Node* node) {
  static const std::unordered_set<std::string_view> kinds = {"aten::as_strided", "aten::stride", "aten::is_contiguous",
                                                             "aten::storage_offset"};
  return has(kinds, node);
}

/** Whether what a node gives lies in the order of its dimensions where all that it takes does. */
bool keeps_order(const Node* node) {
  static const std::unordered_set<std::string_view> kinds = {
      "aten::view", "aten::reshape", "aten::flatten", "aten::unsqueeze", "aten::squeeze", "aten::expand", "aten::expand_as",
      "aten::slice", "aten::select", "aten::chunk", "aten::split", "aten::split_with_sizes", "aten::unbind", "prim::ListUnpack",
      "prim::ConstantChunk", "prim::ListConstruct", "aten::stack", "aten::layer_norm", "aten::softmax", "aten::constant_pad_nd",
      "aten::pad"};
  return has(kinds, node);
}

/** Whether what a node gives lies in the order of its dimensions, whatever it takes. */
bool makes_order(const Node* node) {
  static const std::unordered_set<std::string_view> kinds = {"aten::linear", PackedLinear::OPERATOR, IN_ORDER};
  if (node->kind() == c10::aten::contiguous) {
    return torch::jit::toIValue(node->input(1)) == c10::IValue(static_cast<int64_t>(at::MemoryFormat::Contiguous));
  }
  return has(kinds, node);
}

/** Whether a node takes an input for its sizes and the like alone. */
bool asks_for_sizes(const Node* node, size_t input) {
  static const std::unordered_set<std::string_view> kinds = {"aten::size", "aten::dim", "aten::len", "aten::numel", "prim::dtype", "prim::device"};
  return has(kinds, node) || (node->kind() == c10::aten::expand_as && input == 1);
}

/** Whether a value of this type is or has tensors. */
bool has_tensors(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) return true;
  const auto inner = type->containedTypes();
  return std::any_of(inner.begin(), inner.end(), has_tensors);
}

/**
 * Has convolutions give what lies as oneDNN has it, as far as that only reaches nodes which do not ask how it lies; the others get it as it
 * would have lain. That must be known: it is where all that it came of lay in the order of its dimensions, as the inputs do.
 */
class LayoutKeeper {
 public:
  explicit LayoutKeeper(const torch::jit::Module& module) : module_(module), graph_(*module.get_method("forward").graph()), frees_parts_(!any_node(graph_.block(), asks_for_strides)) {}

  void run() {
    for (auto* input : graph_.inputs()) lies_[input] = Lies::in_order;
    visit(graph_.block());
  }

 private:
  enum class Lies { somehow, in_order, freed };

  void visit(torch::jit::Block* block) {
    // Nodes are put in between while they are gone through.
    std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
    nodes.push_back(block->return_node());
    for (auto* node : nodes) {
      for (auto* inner : node->blocks()) visit(inner);
      const Lies lies = visit(node);
      if (lies == Lies::somehow) continue;
      for (auto* output : node->outputs()) lies_[output] = lies;
    }
  }

  /** How what it gives lies. */
  Lies visit(Node* node) {
    if (node->kind() == c10::prim::Constant) return is_in_order(node) ? Lies::in_order : Lies::somehow;
    const bool knows_all = all_inputs(node, [](Lies lies) { return lies != Lies::somehow; });
    const bool is_as_ever = all_inputs(node, [](Lies lies) { return lies != Lies::freed; });
    if (node->kind().toQualString() == std::string_view(PackedConvolution::OPERATOR)) {
      if (is_channels_last(node) || !knows_all) return Lies::somehow;
      const torch::jit::WithInsertPoint before(node);
      node->replaceInput(2, graph_.insertConstant(true));
      return Lies::freed;
    }
    if ((keeps_layout(node) || (frees_parts_ && gives_parts(node))) && knows_all) return is_as_ever ? Lies::in_order : Lies::freed;
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      if (lies(node->input(i)) == Lies::freed && !asks_for_sizes(node, i)) node->replaceInput(i, in_order(node, node->input(i)));
    }
    return makes_order(node) || (keeps_order(node) && knows_all) ? Lies::in_order : Lies::somehow;
  }

  Lies lies(const torch::jit::Value* value) const {
    const auto found = lies_.find(value);
    return found == lies_.end() ? Lies::somehow : found->second;
  }

  template <class Test>
  bool all_inputs(const Node* node, const Test& test) const {
    const auto inputs = node->inputs();
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](const torch::jit::Value* input) { return !has_tensors(input->type()) || test(lies(input)); });
  }

  static bool is_in_order(const Node* constant) {
    const auto value = torch::jit::toIValue(constant->output());
    return value && (!value->isTensor() || (value->toTensor().layout() == at::kStrided && value->toTensor().is_contiguous()));
  }

  bool is_channels_last(const Node* convolution) const {
    const auto layer = module_.attr(convolution->input(1)->node()->s(c10::attr::name));
    return layer.toCustomClass<PackedConvolution>()->is_channels_last();
  }

  /** The value as it would have lain, for a node. */
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
  std::unordered_map<const torch::jit::Value*, Lies> lies_;
  std::map<std::pair<torch::jit::Value*, torch::jit::Block*>, torch::jit::Value*> in_order_;
};

/** Where a tensor was written that nothing else has, another is made. What is made has the dtype that the written one had. */
void remove_writes(const std::shared_ptr<Graph>& graph) {
  // Scopes are for whoever reads the graph; new nodes get those of the ones whose place they take.
  const auto scope = c10::make_intrusive<torch::jit::Scope>();
  for (auto* node : all(*graph, writes)) node->setScope(scope);
  torch::jit::RemoveTensorMutation(graph);
  for (auto* node : all(*graph, [&](Node* each) { return each->scope() == scope && !writes(each); })) {
    const torch::jit::WithInsertPoint after(node->next());
    auto* const kept = graph->insertNode(graph->create(c10::Symbol::fromQualString(AS_WRITTEN), {node->output(), node->input(0)}));
    node->output()->replaceAllUsesAfterNodeWith(kept, kept->output());
  }
}

size_t pack_convolutions(torch::jit::Module& module) {
  const auto graph = module.get_method("forward").graph();
  if (!any_node(graph->block(), [](const Node* node) { return convolution_of(node).has_value(); })) return 0;
  remove_writes(graph);
  // What is laid out anew is another tensor: who writes into it, or into a view of it, would not be heard.
  if (any_node(graph->block(), writes)) return 0;
  const size_t count = pack_all<PackedConvolution>(module, convolution_of);
  LayoutKeeper(module).run();
  return count;
}

}  // namespace

size_t pack_layers(torch::jit::Module& frozen) {
  if (!can_pack()) return 0;
  return pack_all<PackedLinear>(frozen, linear_of) + pack_convolutions(frozen);
}

}  // namespace sconce
