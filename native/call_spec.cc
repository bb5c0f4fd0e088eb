#include "call_spec.h"

#include <cctype>
#include <map>
#include <string_view>

#include "error.h"

namespace sconce {
namespace {

[[noreturn]] void fail() { refuse_weights("the package's call specification is not what PyTorch writes"); }

/** A JSON value, as far as pytree specs use JSON. Numbers and keywords are kept as text. */
struct Json {
  enum class Kind { text, word, array, object } kind = Kind::word;
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> fields;

  const Json* field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? nullptr : &found->second;
  }
};

class JsonReader {
 public:
  explicit JsonReader(std::string_view source) : source_(source) {}

  Json read() {
    Json value = value_at(0);
    if (peek() != '\0') fail();
    return value;
  }

 private:
  static constexpr int kMaxDepth = 64;

  char peek() {
    while (at_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[at_]))) ++at_;
    return at_ < source_.size() ? source_[at_] : '\0';
  }

  void expect(char wanted) {
    if (peek() != wanted) fail();
    ++at_;
  }

  bool separator(char end) {
    if (peek() == end) {
      ++at_;
      return false;
    }
    expect(',');
    return true;
  }

  std::string string() {
    expect('"');
    std::string out;
    while (at_ < source_.size() && source_[at_] != '"') {
      char letter = source_[at_++];
      if (letter == '\\' && at_ < source_.size()) {
        letter = source_[at_++];
        if (letter == 'n') letter = '\n';
        if (letter == 't') letter = '\t';
        if (letter == 'u') fail();  // Unicode escapes are refused: only names outside ASCII need them
      }
      out += letter;
    }
    expect('"');
    return out;
  }

  Json value_at(int depth) {
    if (depth > kMaxDepth) fail();
    Json json;
    const char first = peek();
    if (first == '"') {
      json.kind = Json::Kind::text;
      json.text = string();
    } else if (first == '[') {
      json.kind = Json::Kind::array;
      ++at_;
      if (peek() == ']') {
        ++at_;
      } else {
        do json.items.push_back(value_at(depth + 1));
        while (separator(']'));
      }
    } else if (first == '{') {
      json.kind = Json::Kind::object;
      ++at_;
      if (peek() == '}') {
        ++at_;
      } else {
        do {
          peek();
          std::string name = string();
          expect(':');
          json.fields[name] = value_at(depth + 1);
        } while (separator('}'));
      }
    } else {
      const auto belongs = [](char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) || letter == '+' || letter == '-' || letter == '.';
      };
      while (at_ < source_.size() && belongs(source_[at_])) json.text += source_[at_++];
      if (json.text.empty()) fail();
    }
    return json;
  }

  std::string_view source_;
  size_t at_ = 0;
};

/** A node of a pytree: a leaf (a tensor), or a container of the kind `type` with children. */
struct Node {
  std::string type;
  std::vector<std::string> names;
  std::vector<Node> children;
  bool leaf = false;
};

std::vector<std::string> names_of(const Json& context) {
  // PyTorch writes the keys of a dict or OrderedDict as JSON inside a string.
  std::vector<std::string> names;
  if (context.kind == Json::Kind::text && !context.text.empty() && context.text.front() == '[') {
    for (const auto& name : JsonReader(context.text).read().items) names.push_back(name.text);
  }
  return names;
}

Node node_of(const Json& json) {
  const Json* type = json.field("type");
  const Json* context = json.field("context");
  const Json* children = json.field("children_spec");
  if (type == nullptr || context == nullptr || children == nullptr) fail();
  Node node;
  node.leaf = type->kind != Json::Kind::text;
  node.type = type->text;
  node.names = names_of(*context);
  for (const auto& child : children->items) node.children.push_back(node_of(child));
  return node;
}

Node tree_of(const std::string& spec) {
  // The JSON is a list of a version and a tree.
  const Json json = JsonReader(spec).read();
  if (json.items.size() != 2) fail();
  return node_of(json.items[1]);
}

void require_leaves(const Node& node, const char* what) {
  for (const auto& child : node.children) {
    if (!child.leaf) refuse_weights(std::string("the package nests its ") + what + "; each must be a tensor");
  }
}

}  // namespace

CallSpec parse_call_spec(const std::string& inputs, const std::string& outputs) {
  CallSpec spec;
  const Node in = tree_of(inputs);
  if (in.children.size() != 2) refuse_weights("the package's call specification has no arguments");
  require_leaves(in.children[0], "inputs");
  require_leaves(in.children[1], "inputs");
  spec.positional_inputs = in.children[0].children.size();
  spec.named_inputs = in.children[1].names;
  if (spec.named_inputs.size() != in.children[1].children.size()) refuse_weights("the package's named inputs have no names");

  const Node out = tree_of(outputs);
  if (out.leaf) {
    spec.outputs = 1;
    return spec;
  }
  require_leaves(out, "outputs");
  spec.outputs = out.children.size();
  if (out.names.size() == spec.outputs) spec.output_names = out.names;
  return spec;
}

}  // namespace sconce
