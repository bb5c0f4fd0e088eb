#include "passes.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/loop_unrolling.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph.h"

namespace sconce {
namespace {

using torch::jit::Graph;
using torch::jit::Node;

bool is_access(const Node* node) { return node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr; }

/** Detaches tensors, because constants must not require gradients. */
c10::IValue as_constant(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().requires_grad() ? c10::IValue(value.toTensor().detach()) : value;
}

class Freezer {
 public:
  Freezer(const torch::jit::Module& module, const std::string& method)
      : module_(module), graph_(module.get_method(method).graph()->copy()), frozen_("Frozen") {}

  std::optional<Frozen> run() {
    torch::jit::Inline(*graph_);
    if (!find_modules()) return std::nullopt;
    torch::jit::Autocast(graph_);
    find_writes();
    replace_accesses();
    simplify();
    auto* const self = graph_->inputs()[0];
    self->setType(frozen_.type());
    const c10::QualifiedName name(*frozen_.type()->name(), "forward");
    auto* const forward = frozen_._ivalue()->compilation_unit()->create_function(name, graph_);
    frozen_.type()->addMethod(forward);
    forget_inlined_methods(forward);
    return Frozen{frozen_, changes_attributes()};
  }

 private:
  /** An attribute of one module object. Modules of the same class may hold different values. */
  using Place = std::pair<const c10::ivalue::Object*, std::string>;

  /**
   * Finds the module object of each graph value that is a module, and inlines all method calls. Returns false for a
   * fork, an unknown module or a remaining call.
   */
  bool find_modules() {
    modules_[graph_->inputs()[0]] = module_._ivalue();
    bool inlines;
    do {
      inlines = false;
      const bool fails = any_node(graph_->block(), [&](Node* node) {
        if (node->kind() == c10::prim::fork || node->kind() == c10::prim::ModuleContainerIndex) return true;
        if (!is_access(node)) return false;
        const auto owner = modules_.find(node->input(0));
        // An unknown module ends the search. Objects that are no modules are skipped.
        if (owner == modules_.end()) return is_module(node->input(0)->type());
        if (node->kind() == c10::prim::SetAttr) return false;
        const auto value = owner->second->getAttr(node->s(c10::attr::name));
        if (!value.isModule()) return false;
        modules_[node->output()] = value.toObject();
        if (node->output()->type()->kind() == c10::TypeKind::InterfaceType) {
          node->output()->setType(value.type());
          inlines = true;
        }
        return false;
      });
      if (fails) return false;
      if (inlines) torch::jit::Inline(*graph_);
    } while (inlines);
    return !any_node(graph_->block(), [](Node* node) { return node->kind() == c10::prim::CallMethod; });
  }

  static bool is_module(const c10::TypePtr& type) {
    if (type->kind() == c10::TypeKind::InterfaceType) return true;
    const auto object = type->cast<c10::ClassType>();
    return object && object->is_module();
  }

  void find_writes() {
    const torch::jit::AliasDb aliases(graph_, /*isFrozen=*/true);
    has_writes_ = any_node(graph_->block(), writes);
    for (auto* node : nodes_of(graph_->block())) {
      if (!is_access(node) || modules_.count(node->input(0)) == 0) continue;
      const auto value = modules_.at(node->input(0))->getAttr(node->s(c10::attr::name));
      const bool is_set = node->kind() == c10::prim::SetAttr;
      if (is_set) written_.insert(place_of(node));
      if (value.isModule() || (!is_set && !aliases.hasOutputWriters(node))) continue;
      written_.insert(place_of(node));
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
        written_memory_.insert(value.toTensor().storage().unsafeGetStorageImpl());
      }
    }
  }

  Place place_of(const Node* access) const { return {modules_.at(access->input(0)).get(), access->s(c10::attr::name)}; }

  bool is_written(const Place& place, const c10::IValue& value) const {
    if (written_.count(place) != 0) return true;
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      return tensor.defined() && tensor.has_storage() && written_memory_.count(tensor.storage().unsafeGetStorageImpl()) != 0;
    }
    // A tensor in a container may change with any write of the graph, because writes to elements are not tracked.
    return has_writes_ && has_tensors(value.type());
  }

  /**
   * Replaces attributes by constants. An attribute that `forward` changes, or that cannot be constant, becomes an
   * attribute of the frozen module.
   */
  void replace_accesses() {
    auto* const self = graph_->inputs()[0];
    for (auto* node : nodes_of(graph_->block())) {
      if (!is_access(node) || modules_.count(node->input(0)) == 0) continue;
      const auto place = place_of(node);
      const auto& owner = modules_.at(node->input(0));
      const auto value = owner->getAttr(place.second);
      if (value.isModule()) continue;
      if (node->kind() == c10::prim::GetAttr && !is_written(place, value)) {
        if (auto* const constant = constant_of(place, value)) {
          node->output()->replaceAllUsesWith(constant);
          continue;
        }
      }
      auto& name = kept_[place];
      if (name.empty()) {
        name = "kept_" + std::to_string(kept_.size());
        if (is_written(place, value) || (has_writes_ && value.isObject())) changing_.insert(name);
        frozen_.register_attribute(name, owner->type()->getAttribute(place.second), value);
      }
      node->s_(c10::attr::name, name);
      node->replaceInput(0, self);
    }
  }

  /** Whether the simplified graph still uses an attribute that it may change. */
  bool changes_attributes() {
    return any_node(graph_->block(), [this](Node* node) {
      if (node->kind() == c10::prim::SetAttr) return true;
      return node->kind() == c10::prim::GetAttr && changing_.count(node->s(c10::attr::name)) != 0;
    });
  }

  /** The graph's constant for a value, inserted by the first call. Null for a value that cannot be constant, such as an object. */
  torch::jit::Value* constant_of(const Place& place, const c10::IValue& value) {
    const auto found = constants_.find(place);
    if (found != constants_.end()) return found->second;
    const torch::jit::WithInsertPoint at_begin(*graph_->nodes().begin());
    const auto constant = torch::jit::tryInsertConstant(*graph_, as_constant(value));
    if (!constant) return nullptr;
    constants_.emplace(place, *constant);
    return *constant;
  }

  /**
   * Evaluates constant nodes, unrolls constant loops, and removes dropouts and unused nodes. Passes of libtorch that
   * merge equal constants are not used, because they treat -0.0 and 0.0 as equal.
   */
  void simplify() {
    torch::jit::EliminateDeadCode(graph_);
    torch::jit::ConstantPropagation(graph_, /*ignore_custom_classes=*/true);
    torch::jit::UnrollConstantLoops(graph_);
    torch::jit::RemoveListMutation(graph_);
    torch::jit::ConstantPropagation(graph_, /*ignore_custom_classes=*/true);
    remove_dropouts();
    torch::jit::LowerSimpleTuples(graph_);
    torch::jit::EliminateDeadCode(graph_);
  }

  /** Removes dropouts whose argument `train` is the constant false: they return their input. */
  void remove_dropouts() {
    static const Kinds kinds = {"aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout",
                                "aten::dropout_", "aten::feature_dropout_", "aten::alpha_dropout_", "aten::feature_alpha_dropout_"};
    for (auto* node : nodes_of(graph_->block())) {
      if (!is_any_of(kinds, node) || torch::jit::toIValue(node->input(2)) != c10::IValue(false)) continue;
      node->output()->replaceAllUsesWith(node->input(0));
      node->destroy();
    }
  }

  /**
   * Removes the nodes' pointers to inlined methods. These methods are freed, and the interpreter follows the pointers at
   * each error.
   */
  void forget_inlined_methods(torch::jit::Function* forward) {
    for (auto* node : nodes_of(graph_->block())) {
      const auto stack = node->callstack();
      if (stack) node->setCallStack(c10::make_intrusive<torch::jit::InlinedCallStack>(forward, (*stack)->source_range()));
    }
  }

  torch::jit::Module module_;
  std::shared_ptr<Graph> graph_;
  torch::jit::Module frozen_;
  std::unordered_map<const torch::jit::Value*, c10::intrusive_ptr<c10::ivalue::Object>> modules_;
  bool has_writes_ = false;
  std::set<Place> written_;
  std::set<const c10::StorageImpl*> written_memory_;
  std::map<Place, torch::jit::Value*> constants_;
  std::map<Place, std::string> kept_;
  /** Names of the kept attributes that a run may change. */
  std::set<std::string> changing_;
};

}  // namespace

std::optional<Frozen> freeze_method(const torch::jit::Module& module, const std::string& method) {
  return Freezer(module, method).run();
}

}  // namespace sconce
