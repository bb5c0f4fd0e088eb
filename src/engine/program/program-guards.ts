/** The inputs of an exported program, and its guards (the input sizes for which its graph is valid) as functions of sizes. */
import { z } from "zod";
import type { DType } from "../../author/tensor.ts";
import { type Computation, guardExpression, type Shapes, sizeAt } from "./guard-expression.ts";
import {
  type Argument,
  callInput,
  dimension,
  dtypeOfLibtorch,
  type ExportedProgram,
  inputSpec,
  libtorchDType,
  notTensor,
  rangeConstraints,
} from "./program-schema.ts";
import { type LinearSize, linearSize } from "./symbolic-size.ts";

const guardedInput = z.object({
  name: z.string(),
  sizes: z.array(dimension),
  dtype: z.number().optional(),
});

export const guardSource = z.object({
  inputs: z.array(guardedInput),
  ranges: rangeConstraints,
  code: z.array(z.string()),
});
export type GuardSource = z.infer<typeof guardSource>;

export interface ProgramGuards {
  /** Names of the inputs in argument order. */
  readonly inputs: readonly string[];
  /** The dtype of each input; undefined if the program accepts every dtype. */
  readonly dtypes: readonly (DType | undefined)[];
  /** Conditions in the order in which PyTorch checks them. */
  readonly conditions: readonly Condition[];
  /** Largest batch in rows; Infinity when the program sets no limit. */
  readonly mostRows: number;
}

/**
 * Returns a message for shapes that the program refuses, otherwise undefined.
 * @throws Error for sizes of which the condition cannot be computed
 */
export type Condition = (shapes: Shapes, nameOf: DimensionName) => string | undefined;

/** Declared name of a dimension of an input, where the batch is dimension 0; undefined if it has none. */
export type DimensionName = (input: number, dimension: number) => string | undefined;

interface InputSize {
  readonly size: Computation;
  /** The dimension in words. */
  readonly where: (nameOf: DimensionName) => string;
}

/** A size of an input, as a linear function of one symbol. */
type HiddenSize = InputSize & LinearSize;

/**
 * Compiles the guards of a program. PyTorch's `ExportedProgram.module()` has the same checks: fixed sizes, equal sizes,
 * ranges, then the conditions that tracing recorded.
 * @throws Error naming an unsupported guard
 */
export function programGuards({ inputs, ranges, code }: GuardSource): ProgramGuards {
  const conditions: Condition[] = [];
  const rows: number[] = [];
  const sources = new Map<string, InputSize>();
  const hidden: HiddenSize[] = [];
  for (const [i, { name, sizes }] of inputs.entries()) {
    for (const [place, stated] of sizes.entries()) {
      const size = sizeAt(i, place);
      const where = (nameOf: DimensionName) => {
        const named = nameOf(i, place);
        return named === undefined ? `dimension ${place} of the tensor ${name}` : `${name}: ${named}`;
      };
      const demand = (what: string, holds: (given: number) => boolean) => {
        conditions.push((shapes, nameOf) => {
          const given = size(shapes);
          return holds(given) ? undefined : `${where(nameOf)} must be ${what}, received ${given}`;
        });
      };
      if ("as_int" in stated) {
        const { as_int: only } = stated;
        demand(`${only}`, (given) => given === only);
        if (place === 0) rows.push(only);
        continue;
      }
      const { expr_str: expression } = stated.as_expr;
      const same = sources.get(expression);
      if (same !== undefined) {
        conditions.push((shapes, nameOf) => {
          const [given, wanted] = [size(shapes), same.size(shapes)];
          if (given === wanted) return undefined;
          return `${where(nameOf)} must be ${wanted}, received ${given}; ${same.where(nameOf)} is ${wanted}`;
        });
        continue;
      }
      sources.set(expression, { size, where });
      const linear = linearSize(expression);
      if (linear === undefined) continue;
      const { symbol, factor, offset } = linear;
      const first = hidden.find((each) => each.symbol === symbol);
      if (first === undefined) hidden.push({ symbol, factor, offset, size, where });
      else conditions.push(fitting(first, { symbol, factor, offset, size, where }));
      const { min_val: min, max_val: max } = ranges[symbol] ?? {};
      const least = min == null ? 0 : factor * Number(min) + offset;
      const most = max == null ? Number.POSITIVE_INFINITY : factor * Number(max) + offset;
      // Tracing notes a least size of 2 for every dynamic dimension, but PyTorch does not check it.
      if (least > 2) demand(`at least ${least}`, (given) => given >= least);
      if (Number.isSafeInteger(most)) demand(`at most ${most}`, (given) => given <= most);
      if (place === 0) rows.push(most);
    }
  }
  const names = inputs.map(({ name }) => name);
  for (const guard of code) conditions.push(condition(guard, names));
  const dtypes = inputs.map(({ name, dtype }) => {
    const wanted = dtype === undefined ? undefined : dtypeOfLibtorch(dtype);
    if (dtype !== undefined && wanted === undefined) throw new Error(`its input ${name} has a dtype that sconce lacks`);
    return wanted;
  });
  return { inputs: names, dtypes, conditions, mostRows: Math.min(...rows) };
}

/**
 * Checks that two sizes computed from one symbol fit each other, e.g. `2 * s` and `3 * s + 1` when no input has the size
 * `s`.
 */
function fitting(first: HiddenSize, other: HiddenSize): Condition {
  const said = ({ size, where }: InputSize, shapes: Shapes, nameOf: DimensionName) =>
    `${where(nameOf)} is ${size(shapes)}`;
  return (shapes, nameOf) =>
    (first.size(shapes) - first.offset) * other.factor === (other.size(shapes) - other.offset) * first.factor
      ? undefined
      : `${said(other, shapes, nameOf)}, which does not fit: ${said(first, shapes, nameOf)}`;
}

function condition(guard: string, names: readonly string[]): Condition {
  const shown = guard.replaceAll(/L\['(\w+)'\]/g, "$1").replaceAll(/\s+/g, " ");
  try {
    const compute = guardExpression(guard, (path) => placeOf(path, names));
    return (shapes, nameOf) => {
      if (compute(shapes) !== 0) return undefined;
      const named = shown.replaceAll(/(\w+)\.size\(\)\[(\d+)\]/g, (whole, name: string, dimension: string) => {
        const found = nameOf(names.indexOf(name), Number(dimension));
        return found === undefined ? whole : `${name}.${found}`;
      });
      return `the guard ${named} fails (${shapesText(names, shapes)})`;
    };
  } catch (error) {
    throw new Error(`it has a guard that sconce does not understand: ${shown}`, { cause: error });
  }
}

export function shapesText(names: readonly string[], shapes: Shapes): string {
  return `${shapes.map((shape, i) => `${names[i]} is [${shape.join(", ")}]`).join(", ")} with the batch first`;
}

/** The place of the tensor at a path in the inputs of the Python call; undefined if there is none. */
function placeOf(path: readonly string[], names: readonly string[]): number | undefined {
  const [first, second] = path;
  const isFlat = first === "flat_args" && path.length === 2;
  // PyTorch names the placeholder of an input after its path.
  const name = path.join("_").replaceAll(/[^A-Za-z0-9]/g, "_");
  const same = (each: string) => each === name || each.toLowerCase() === name.toLowerCase();
  const place = isFlat ? Number(second) : names.findIndex(same);
  return names[place] === undefined ? undefined : place;
}

/** An assertion on a tensor's dtype. The translation drops it, because the guards check the dtypes of the inputs. */
export const TYPE_CHECK = "torch.ops.aten._assert_tensor_metadata.default";

export function guardsOf({
  graph_module: { graph, signature },
  range_constraints: ranges,
  guards_code: code,
}: ExportedProgram): GuardSource {
  const checksTypes = graph.nodes.some(({ target }) => target === TYPE_CHECK);
  const inputs = signature.input_specs.flatMap((spec) => {
    if (!("user_input" in spec)) return [];
    const data = inputOf(spec);
    if (!("user_input" in data)) return [];
    const { name } = data.user_input.arg.as_tensor;
    if (!/^[A-Za-z]\w*$/.test(name) || name === "self") throw new Error(`${name} is no name for an input`);
    const value = Object.hasOwn(graph.tensor_values, name) ? graph.tensor_values[name] : undefined;
    if (value === undefined) throw new Error(`it does not say the sizes of its input ${name}`);
    return [{ name, sizes: value.sizes, ...(checksTypes ? { dtype: libtorchDType(value.dtype) } : {}) }];
  });
  return { inputs, ranges, code };
}

export function inputOf(spec: Argument): z.infer<typeof inputSpec> {
  const { success, data } = inputSpec.safeParse(spec);
  if (success) return data;
  const argument = callInput.safeParse(spec).data?.user_input?.arg;
  if (argument === undefined) throw new Error(`its inputs hold a ${Object.keys(spec)[0]}`);
  throw new Error(notTensor(argument));
}

interface Weight {
  /** Name of the weight's value in the graph. */
  readonly value: string;
  /** Name of the weight in the archive. */
  readonly name: string;
}

/** The weight that an input represents: a parameter, a buffer or a tensor constant. Undefined for other inputs. */
export function weightOf(spec: z.infer<typeof inputSpec>): Weight | undefined {
  if ("parameter" in spec) return { value: spec.parameter.arg.name, name: spec.parameter.parameter_name };
  if ("buffer" in spec) return { value: spec.buffer.arg.name, name: spec.buffer.buffer_name };
  if (!("tensor_constant" in spec)) return undefined;
  return { value: spec.tensor_constant.arg.name, name: spec.tensor_constant.tensor_constant_name };
}
