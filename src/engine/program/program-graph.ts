/** Translates the graph of an exported program to a TorchScript method, one line per node. */
import { z } from "zod";
import { guardsOf, inputOf, type ProgramGuards, programGuards, TYPE_CHECK, weightOf } from "./program-guards.ts";
import { float, integer, symbolicCall, truth } from "./program-literals.ts";
import {
  type Argument,
  argument,
  type ExportedProgram,
  innerGraph,
  KEYWORD,
  libtorchDType,
  libtorchMemoryFormat,
  type Node,
  named,
  names,
  STRIDED,
  symbol,
  symbols,
  tensorList,
  whole,
} from "./program-schema.ts";

export interface ProgramText {
  readonly source: string;
  /** Names of the weights in the archive; `source` reads them as `self.w0`, `self.w1` and so on. */
  readonly weights: readonly string[];
  /** Operators, e.g. `aten::add.Tensor`; `source` calls them as `_op0`, `_op1` and so on. */
  readonly operators: readonly string[];
  readonly guards: ProgramGuards;
}

/** The program as TorchScript source. @throws Error naming the unsupported part of the program */
export function programText(program: ExportedProgram): ProgramText {
  const { graph, signature, module_call_graph: calls } = program.graph_module;
  const values = new Values();
  const weights: string[] = [];
  for (const spec of signature.input_specs) {
    const data = inputOf(spec);
    if ("user_input" in data) {
      const { name } = data.user_input.arg.as_tensor;
      values.define(name, name);
      continue;
    }
    const weight = weightOf(data);
    if (weight === undefined) continue;
    values.define(weight.value, `self.w${weights.push(weight.name) - 1}`);
  }
  const kinds = signature.output_specs.flatMap(Object.keys);
  const mutation = kinds.find((kind) => kind !== "user_output" && kind !== "token");
  if (mutation !== undefined) throw new Error(`it has a ${mutation}: a run changes what the next one reads`);
  const guards = programGuards(guardsOf(program));
  const { inputs } = guards;
  if (inputs.length === 0) throw new Error("it takes no tensors");
  // The program names the device of the export. New tensors go to the device of the inputs instead.
  const lines = [`${DEVICE} = ${inputs[0]}.device`, ...values.lines(graph)];
  const results = graph.outputs.filter((_, i) => kinds[i] !== "token");
  const outputs = results.map((output) => ("as_none" in output ? undefined : values.tensor(output.as_tensor)));
  lines.push(`return ${returned(outputs, calls[0]?.signature?.out_spec)}`);
  const parameters = inputs.map((name) => `, ${name}: Tensor`).join("");
  const source = `def forward(self${parameters}):\n${lines.map((line) => `    ${line}\n`).join("")}`;
  return { source, weights, operators: values.operators, guards };
}

const DEVICE = "_device";

/** Operators of a program that have another name in TorchScript. */
const renamed: Readonly<Record<string, string>> = {
  "aten::sym_size.int": "aten::size.int",
  "aten::sym_stride.int": "aten::stride.int",
  "aten::sym_numel": "aten::numel",
  "aten::sym_storage_offset": "aten::storage_offset",
  "prims::scalar_tensor": "aten::scalar_tensor",
  // `to` returns its input if the dtype is equal. No operator here writes to it, so sharing is harmless.
  "prims::convert_element_type": "aten::to.dtype",
};

/** Operators that read the single element of a tensor as a number. */
const ELEMENT = /^torch\.ops\.aten\.(item|_local_scalar_dense)\.default$/;
/** TorchScript's own `item` has no static result type, so an operator for the number's type replaces it. */
const elementKinds: Readonly<Record<string, string>> = {
  as_sym_int: "_ops_aten.Int",
  as_sym_float: "_ops_aten.Float",
  as_sym_bool: "_ops_aten.Bool",
};

/**
 * Target of a node that orders an operator with side effects. Arguments: a token, the operator and its arguments.
 * Results: a token and the operator's results.
 */
const WITH_EFFECTS = "torch.ops.higher_order.with_effects";

const symbolName = z.object({ as_name: z.string() }).transform(({ as_name: name }) => name);

class Values {
  readonly operators: string[] = [];
  #texts = new Map<string, string>();
  #locals = 0;

  define(name: string, text: string): string {
    this.#texts.set(name, text);
    return text;
  }

  tensor(value: unknown): string {
    const { success, data } = named.safeParse(value);
    if (!success) throw new Error("it gives something else than tensors");
    return this.#variable(data.name);
  }

  lines({ nodes, outputs }: { readonly nodes: readonly Node[]; readonly outputs: readonly Argument[] }): string[] {
    const used = new Set(valueNames([nodes.map(({ inputs }) => inputs.map(({ arg }) => arg)), outputs]));
    return nodes
      .filter(({ target }) => target !== TYPE_CHECK)
      .flatMap((node) => [...this.#lines(node), ...this.#unused(node, used)]);
  }

  /**
   * Keeps a node whose results nothing uses, by an assertion on them. libtorch would drop the node, but PyTorch runs
   * it, and it may refuse an input.
   */
  #unused({ outputs }: Node, used: ReadonlySet<string>): string[] {
    const tensors = valueNames(outputs.map(({ as_tensor: one, as_tensors: several }) => [one, several]));
    const [first] = tensors;
    if (first === undefined || tensors.some((name) => used.has(name))) return [];
    return [`assert _ops_aten.numel(${this.#variable(first)}) >= 0, ""`];
  }

  #lines(node: Node): string[] {
    if (isInlined(node)) return this.#inlined(node);
    if (node.target === "torch.ops.higher_order.cond") return this.#branches(node);
    if (node.target === "torch.ops.aten._assert_scalar.default") return this.#assertion(node);
    // A token only fixes the order of nodes, and TorchScript lines keep their order.
    if (node.target === WITH_EFFECTS) return this.#line(withoutToken(node));
    if (ELEMENT.test(node.target)) return this.#element(node);
    return this.#line(node);
  }

  #line(node: Node): string[] {
    const call = this.#call(node);
    const list = listOf(node);
    if (list !== undefined) {
      const whole = `_list${this.#locals++}`;
      return [`${whole} = ${call}`, ...list.map((name, i) => `${this.#local(name)} = ${whole}[${i}]`)];
    }
    const targets = node.outputs.map((output) => this.#local(outputName(output, node.target)));
    return [targets.length === 0 ? call : `${targets.join(", ")} = ${call}`];
  }

  #inlined({ target, inputs, outputs }: Node): string[] {
    const at = inputs.findIndex(({ arg }) => "as_graph" in arg);
    const given = inputs.slice(at + 1).map(({ arg }) => this.#literal(arg, target));
    const { lines, results } = this.#inner(inputs[at]?.arg, target, given);
    for (const [i, name] of outputNames({ target, outputs }).entries()) this.define(name, results[i] ?? "");
    return lines;
  }

  /**
   * Translates `torch.cond`. Its inputs are a condition, two graphs with the same arguments and results, and the
   * arguments.
   */
  #branches({ target, inputs: [condition, yes, no, operands], outputs }: Node): string[] {
    const given = names.parse(operands?.arg.as_tensors).map(({ name }) => this.#variable(name));
    const text = this.#literal(condition?.arg ?? {}, target);
    const targets = outputNames({ target, outputs }).map((name) => [name, `_${this.#locals++}`] as const);
    const branch = (graph: typeof yes) => {
      const { lines, results } = this.#inner(graph?.arg, target, given);
      return [...lines, ...targets.map(([, local], i) => `${local} = ${results[i]}`)].map((line) => `    ${line}`);
    };
    const isTensor = condition?.arg.as_tensor !== undefined;
    const lines = [`if ${isTensor ? `_ops_aten.Bool(${text})` : text}:`, ...branch(yes), "else:", ...branch(no)];
    for (const [name, local] of targets) this.define(name, local);
    return lines;
  }

  /** Translates an inner graph. It sees its arguments only, not values of the outer graph. */
  #inner(arg: Argument | undefined, target: string, given: readonly string[]) {
    const { graph } = innerGraph.parse(arg?.as_graph);
    const outer = this.#texts;
    const nameOf = (input: Argument) => symbolName.safeParse(Object.values(input)[0]).data ?? outputName(input, target);
    this.#texts = new Map(graph.inputs.map((input, i) => [nameOf(input), given[i] ?? ""]));
    const lines = this.lines(graph);
    const results = graph.outputs.map((output) => this.tensor(output.as_tensor));
    this.#texts = outer;
    return { lines, results };
  }

  #element({ target, inputs: [tensor], outputs: [output = {}] }: Node): string[] {
    const [kind = ""] = Object.keys(output);
    const element = elementKinds[kind];
    if (tensor === undefined || element === undefined) throw new Error(`${target} gives it an ${kind}`);
    const text = this.#literal(tensor.arg, target);
    return [`${this.#local(outputName(output, target))} = ${element}(${text})`];
  }

  #assertion({ target, inputs: [condition, message] }: Node): string[] {
    if (condition === undefined || message === undefined) throw new Error(`it calls ${target} with too little`);
    return [`assert ${this.#literal(condition.arg, target)}, ${this.#literal(message.arg, target)}`];
  }

  #call({ target, inputs }: Node): string {
    if (target.startsWith("torch.ops.higher_order.")) throw new Error(`it uses ${target}`);
    const texts = inputs.map(({ arg }) => this.#literal(arg, target));
    const symbolic = symbolicCall(target, texts);
    if (symbolic !== undefined) return symbolic;
    const [, space = "", name = "", overload = ""] = /^torch\.ops\.(\w+)\.(\w+)\.(\w+)$/.exec(target) ?? [];
    if (name === "") throw new Error(`it uses ${target}`);
    const given = inputs.map(({ name, kind }, i) => (kind === KEYWORD ? `${name}=${texts[i]}` : texts[i]));
    return `${this.#operator(`${space}::${name}${overload === "default" ? "" : `.${overload}`}`)}(${given.join(", ")})`;
  }

  #operator(name: string): string {
    const exact = renamed[name] ?? name;
    const known = this.operators.indexOf(exact);
    return `_op${known < 0 ? this.operators.push(exact) - 1 : known}`;
  }

  #literal(arg: Argument, target: string): string {
    const [kind = "", value] = Object.entries(arg)[0] ?? [];
    const unknown = () => new Error(`it gives ${target} an argument ${kind}`);
    switch (kind) {
      case "as_none":
        return "None";
      case "as_tensor":
        return this.tensor(value);
      case "as_tensors":
        return `[${names.parse(value).map(({ name }) => this.#variable(name))}]`;
      case "as_optional_tensor":
        return this.#literal(argument.parse(value), target);
      case "as_optional_tensors":
        return `_annotate(List[Optional[Tensor]], [${tensorList.parse(value).map((each) => this.#literal(each, target))}])`;
      case "as_int":
        return integer(whole.parse(value));
      case "as_ints":
        return `_annotate(List[int], [${z.array(whole).parse(value).map(integer)}])`;
      case "as_sym_int":
      case "as_sym_float":
      case "as_sym_bool":
        return this.#symbol(symbol.parse(value));
      case "as_sym_ints":
        return `_annotate(List[int], [${symbols.parse(value).map((each) => this.#symbol(each))}])`;
      case "as_float":
        return float(value);
      case "as_floats":
        return `_annotate(List[float], [${z.array(z.unknown()).parse(value).map(float)}])`;
      case "as_bool":
        return truth(value);
      case "as_bools":
        return `_annotate(List[bool], [${z.array(z.unknown()).parse(value).map(truth)}])`;
      case "as_string":
        return JSON.stringify(z.string().parse(value));
      case "as_device":
        return DEVICE;
      case "as_scalar_type":
        return String(libtorchDType(z.number().parse(value)));
      case "as_memory_format":
        return libtorchMemoryFormat(z.number().parse(value));
      case "as_layout":
        if (value === STRIDED) return "0";
        throw unknown();
      default:
        throw unknown();
    }
  }

  #symbol(value: z.infer<typeof symbol>): string {
    if ("as_name" in value) return this.#variable(value.as_name);
    if ("as_int" in value) return integer(value.as_int);
    return "as_float" in value ? float(value.as_float) : truth(value.as_bool);
  }

  #local(name: string): string {
    return this.define(name, `_${this.#locals++}`);
  }

  #variable(name: string): string {
    const text = this.#texts.get(name);
    if (text === undefined) throw new Error(`its value ${name} comes from nowhere`);
    return text;
  }
}

/**
 * Whether a node is only a `with` statement that has no effect: gradients are always off, and disabled autocast casts
 * nothing.
 */
function isInlined({ target, inputs }: Node): boolean {
  if (target === "torch.ops.higher_order.wrap_with_set_grad_enabled") return true;
  return target === "torch.ops.higher_order.wrap_with_autocast" && inputs[2]?.arg.as_bool === false;
}

function withoutToken({ inputs: [, operator, ...inputs], outputs: [, ...outputs] }: Node): Node {
  const target = z.string().parse(operator?.arg.as_operator);
  return { target, inputs, outputs: outputs.filter((output) => !("as_none" in output)) };
}

function listOf({ outputs }: Pick<Node, "outputs">): string[] | undefined {
  const [first] = outputs;
  if (first?.as_tensors === undefined || outputs.length > 1) return undefined;
  return names.parse(first.as_tensors).map(({ name }) => name);
}

/** Names of all values in arguments, inner graphs included. */
function valueNames(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    (key === "name" || key === "as_name") && typeof inner === "string" ? [inner] : valueNames(inner),
  );
}

function outputNames({ target, outputs }: Pick<Node, "target" | "outputs">): string[] {
  return listOf({ outputs }) ?? outputs.map((output) => outputName(output, target));
}

/**
 * The name of an output: a tensor, or a number computed from sizes or read from a tensor. @throws Error for other
 * numbers, whose type is unknown
 */
function outputName(output: Argument, target: string): string {
  const [kind = "", value] = Object.entries(output)[0] ?? [];
  const isNumber = /^(_operator|math)\.|\bsym_/.test(target) || ELEMENT.test(target);
  const name = kind === "as_tensor" ? named.safeParse(value).data?.name : isNumber && symbolName.safeParse(value).data;
  if (typeof name === "string") return name;
  throw new Error(`${target} gives it an ${kind}`);
}

const treeSchema = z.looseObject({ context: z.unknown(), children_spec: z.array(z.unknown()) });
const specSchema = z.tuple([z.number(), treeSchema]);
const leafSchema = z.looseObject({ children_spec: z.array(z.never()) });

function jsonIn(spec: string): unknown {
  try {
    return JSON.parse(spec);
  } catch (error) {
    throw new Error("the tree of its outputs is not JSON", { cause: error });
  }
}

/**
 * Return value of the method: a single tensor, a dict if the program returns one, else a tuple. Drops outputs that are
 * None.
 */
function returned(outputs: readonly (string | undefined)[], spec: string | undefined): string {
  const { context, children_spec: children = [] } = specSchema.safeParse(jsonIn(spec ?? "0")).data?.[1] ?? {};
  const keys =
    typeof context === "string" && context.startsWith("[")
      ? z.array(z.string()).safeParse(jsonIn(context)).data
      : undefined;
  const isFlat = children.every((child) => leafSchema.safeParse(child).success);
  const isDict = keys !== undefined && isFlat && keys.length === outputs.length;
  const given = outputs.flatMap((output, i) => {
    if (output === undefined) return [];
    return isDict ? `${JSON.stringify(keys[i])}: ${output}` : output;
  });
  if (given.length === 0) throw new Error("it gives no tensors");
  if (isDict) return `{${given.join(", ")}}`;
  return children.length === 0 && given.length === 1 ? given.join() : `(${given.join(", ")},)`;
}
