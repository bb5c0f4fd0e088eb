#include "plain_form.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph.h"
#include "packed_layers.h"

namespace sconce {
namespace {

/** Limit for the plain weights that all networks of this process keep in memory. */
constexpr size_t MOST_PLAIN_BYTES = 256 << 20;

std::atomic<size_t> plain_bytes{0};

/** A packed layer that stands in the place of a weight. */
struct PlacedLayer {
  /** Node that reads the packed layer from the module. */
  torch::jit::Node* attribute;
  /** Node that calls the layer's operator, with the packed layer as its weight. */
  torch::jit::Node* node;
  /** Index of the packed layer among the inputs of `node`. */
  size_t place;
};

bool is_packed_linear(const torch::jit::Node* attribute) {
  return attribute->output()->type() == c10::getCustomClassType<c10::intrusive_ptr<PackedLinear>>();
}

bool is_packed_convolution(const torch::jit::Node* attribute) {
  return attribute->output()->type() == c10::getCustomClassType<c10::intrusive_ptr<PackedConvolution>>();
}

std::vector<PlacedLayer> placed_layers(torch::jit::Graph& graph) {
  std::vector<PlacedLayer> found;
  any_node(graph.block(), [&](torch::jit::Node* node) {
    if (node->kind() != c10::prim::GetAttr || !(is_packed_linear(node) || is_packed_convolution(node))) return false;
    const auto use = node->output()->uses().at(0);
    found.push_back({node, use.user, use.offset});
    return false;
  });
  return found;
}

void leave_packed(const PlacedLayer& placed) {
  const bool is_linear = is_packed_linear(placed.attribute);
  auto* const graph = placed.node->owningGraph();
  const torch::jit::WithInsertPoint before(placed.node);
  // The input stands before the weight in all layers.
  std::vector<torch::jit::Value*> inputs = {placed.node->input(placed.place - 1), placed.attribute->output()};
  if (!is_linear) inputs.push_back(graph->insertConstant(false));
  const char* const name = is_linear ? PackedLinear::OPERATOR : PackedConvolution::OPERATOR;
  auto* const packed = graph->insertNode(graph->create(c10::Symbol::fromQualString(name), inputs));
  packed->copyMetadata(placed.node);
  placed.node->output()->replaceAllUsesWith(packed->output());
  placed.node->destroy();
}

void make_plain(const PlacedLayer& placed, const at::Tensor& weight) {
  const torch::jit::WithInsertPoint before(placed.node);
  placed.node->replaceInput(placed.place, placed.node->owningGraph()->insertConstant(weight));
  placed.attribute->destroy();
}

}  // namespace

// The delegation lets the destructor release the reservation if this constructor throws.
PlainForm::PlainForm(const torch::jit::Module& packed, torch::jit::Graph& layers) : PlainForm() {
  const auto graph = layers.copy();
  std::map<std::string, at::Tensor> weights;
  for (const auto& placed : placed_layers(*graph)) {
    const auto& name = placed.attribute->s(c10::attr::name);
    const auto layer = packed.attr(name);
    const bool is_linear = is_packed_linear(placed.attribute);
    const auto with_layer = [&](const auto& use) {
      return is_linear ? use(*layer.toCustomClass<PackedLinear>()) : use(*layer.toCustomClass<PackedConvolution>());
    };
    if (weights.count(name) == 0 && reserve(with_layer([](auto& each) { return each.bytes(); }))) {
      weights.emplace(name, with_layer([](auto& each) { return each.plain_weight(); }));
    }
    const auto found = weights.find(name);
    if (found == weights.end()) {
      leave_packed(placed);
      continue;
    }
    // A matrix product takes the transpose of a linear layer's weight.
    const bool is_product = is_linear && placed.node->kind() != c10::aten::linear;
    make_plain(placed, is_product ? found->second.t() : found->second);
  }
  code_.emplace(graph, "forward");
}

PlainForm::~PlainForm() { plain_bytes -= bytes_; }

bool PlainForm::can_keep(size_t bytes) { return bytes <= MOST_PLAIN_BYTES; }

bool PlainForm::reserve(size_t bytes) {
  if (plain_bytes + bytes > MOST_PLAIN_BYTES) return false;
  plain_bytes += bytes;
  bytes_ += bytes;
  return true;
}

}  // namespace sconce
