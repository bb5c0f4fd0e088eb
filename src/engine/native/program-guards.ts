/**
 * Translates the guards of an exported program (the input sizes for which its graph is valid) to a TorchScript
 * function.
 */
import { z } from "zod";
import { guardExpression } from "./guard-expression.ts";
import { dimension, rangeConstraints } from "./program-schema.ts";
import { linearSize } from "./symbolic-size.ts";

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
  /** `guards(self, ...) -> str`: returns the message of the first failed guard, or "". */
  readonly source: string;
  /** Names of the inputs in argument order. */
  readonly inputs: readonly string[];
  /** Largest batch in rows; Infinity when the program sets no limit. */
  readonly mostRows: number;
}

/**
 * Translates the guards of a program. They are the checks of PyTorch's `ExportedProgram.module()`: dtypes, fixed sizes,
 * equal sizes, ranges, then the conditions that tracing recorded.
 * @throws Error naming an unsupported guard
 */
export function programGuards({ inputs, ranges, code }: GuardSource): ProgramGuards {
  const conditions: Condition[] = [];
  const rows: number[] = [];
  const sources = new Map<string, string>();
  const hidden: { symbol: string; factor: number; offset: number; text: string; where: string }[] = [];
  for (const [i, { name, sizes, dtype }] of inputs.entries()) {
    if (dtype !== undefined) conditions.push({ holds: `x${i}.dtype == ${dtype}`, message: `${name}: wrong dtype` });
    for (const [place, size] of sizes.entries()) {
      const text = `x${i}.size(${place})`;
      const where = `${name}: size ${place}`;
      if ("as_int" in size) {
        conditions.push({ holds: `${text} == ${size.as_int}`, message: `${where} must be ${size.as_int}` });
        if (place === 0) rows.push(size.as_int);
        continue;
      }
      const { expr_str: expression } = size.as_expr;
      const same = sources.get(expression);
      if (same !== undefined) {
        const other = `${inputs[Number(/^x(\d+)/.exec(same)?.[1])]?.name}(${/\d+(?=\)$)/.exec(same)?.[0]})`;
        conditions.push({ holds: `${text} == ${same}`, message: `${where} must be that of ${other}` });
        continue;
      }
      sources.set(expression, text);
      const linear = linearSize(expression);
      if (linear === undefined) continue;
      const { symbol, factor, offset } = linear;
      hidden.push({ symbol, factor, offset, text, where });
      const { min_val: min, max_val: max } = ranges[symbol] ?? {};
      const least = min == null ? 0 : factor * Number(min) + offset;
      const most = max == null ? Number.POSITIVE_INFINITY : factor * Number(max) + offset;
      // Tracing notes a least size of 2 for every dynamic dimension, but PyTorch does not check it.
      if (least > 2) conditions.push({ holds: `${text} >= ${least}`, message: `${where} must be at least ${least}` });
      if (Number.isSafeInteger(most))
        conditions.push({ holds: `${text} <= ${most}`, message: `${where} must be at most ${most}` });
      if (place === 0) rows.push(most);
    }
  }
  conditions.push(...multiples(hidden));
  const names = inputs.map(({ name }) => name);
  for (const guard of code) conditions.push(condition(guard, names));
  const lines = conditions.flatMap(({ holds, message }) => [
    `    if not (${holds}):`,
    `        return ${JSON.stringify(message)}`,
  ]);
  const parameters = inputs.map((_, i) => `, x${i}: Tensor`).join("");
  const source = ["", `def guards(self${parameters}) -> str:`, ...lines, `    return ""`, ""].join("\n").slice(1);
  return { source, inputs: names, mostRows: Math.min(...rows) };
}

interface Condition {
  readonly holds: string;
  readonly message: string;
}

/**
 * Checks that sizes computed from one symbol fit each other, e.g. `2 * s` and `3 * s + 1` when no input has the size
 * `s`.
 */
function multiples(
  sizes: readonly { symbol: string; factor: number; offset: number; text: string; where: string }[],
): Condition[] {
  return sizes.flatMap((size, i) => {
    const ofSymbol = sizes.filter(({ symbol }) => symbol === size.symbol);
    const [first] = ofSymbol;
    if (first === undefined || first === size || sizes.indexOf(first) > i) return [];
    const holds = `(${first.text} - ${first.offset}) * ${size.factor} == (${size.text} - ${size.offset}) * ${first.factor}`;
    return [{ holds, message: `${size.where} does not fit ${first.where}` }];
  });
}

function condition(guard: string, names: readonly string[]): Condition {
  const shown = guard.replaceAll(/L\['(\w+)'\]/g, "$1").replaceAll(/\s+/g, " ");
  try {
    return { holds: guardExpression(guard, (path) => inputText(path, names)), message: `the guard ${shown} fails` };
  } catch (error) {
    throw new Error(`it has a guard that sconce does not understand: ${shown}`, { cause: error });
  }
}

/** The TorchScript name of the tensor at a path in the inputs of the Python call; undefined if there is none. */
function inputText(path: readonly string[], names: readonly string[]): string | undefined {
  const [first, second] = path;
  const isFlat = first === "flat_args" && path.length === 2;
  // PyTorch names the placeholder of an input after its path.
  const name = path.join("_").replaceAll(/[^A-Za-z0-9]/g, "_");
  const same = (each: string) => each === name || each.toLowerCase() === name.toLowerCase();
  const place = isFlat ? Number(second) : names.findIndex(same);
  return names[place] === undefined ? undefined : `x${place}`;
}
