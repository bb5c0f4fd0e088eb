/** Reads the inputs and outputs of an AOTInductor package from its C++ source, which checks each input before a run. */
import { z } from "zod";
import type { DType } from "../../../author/tensor.ts";
import type { FreeSize, TensorInput } from "./tensor-input.ts";

const dtypes: Readonly<Record<string, DType>> = {
  kFloat: "float32",
  kDouble: "float64",
  kHalf: "float16",
  kBFloat16: "bfloat16",
  kChar: "int8",
  kShort: "int16",
  kInt: "int32",
  kLong: "int64",
  kByte: "uint8",
  kBool: "bool",
};

/** The inputs of an AOTInductor package in call order, from its C++ source; undefined if the source lacks them. */
export function inputsOfSource(source: string): TensorInput[] | undefined {
  const slots = [...source.matchAll(/inputs_info_\[\d+\]\.name = "(\w+)"/g)].map(([, slot = ""]) => slot);
  const spec = treeOf(source, "in_spec_");
  const named = spec?.children[1]?.names ?? [];
  const byOrder = slots.length - named.length;
  const free = new Map<string, FreeSize>();
  const inputs = slots.flatMap((slot, i) => {
    const name = named[i - byOrder] ?? `input${i}`;
    const checks = checksOf(source, i);
    // The symbols of the input's sizes. Sizes with the same symbol are always equal.
    const symbols = new RegExp(`assert_size_stride\\(${slot}, \\{([^}]*)\\}`).exec(source)?.[1]?.split(/,\s*/) ?? [];
    const dtype = dtypes[/\(at::(\w+)\)/.exec(checks)?.[1] ?? ""];
    if (dtype === undefined) return [];
    const sizes = sizesOf(checks).map((size, place) => {
      if (typeof size === "number") return size;
      const symbol = place === 0 ? "batch" : (symbols[place] ?? `${name}_${place}`);
      const known = free.get(symbol) ?? { ...size, name: place === 0 ? "batch" : `${name}_${place}` };
      free.set(symbol, known);
      return known;
    });
    return [{ name, dtype, sizes }];
  });
  return slots.length > 0 && inputs.length === slots.length ? inputs : undefined;
}

/** Names of the outputs if the package returns a dict or a named tuple, otherwise empty. */
export function outputNamesOfSource(source: string): readonly string[] {
  return treeOf(source, "out_spec_")?.names ?? [];
}

function checksOf(source: string, slot: number): string {
  const lines = new RegExp(`input_handles\\[${slot}\\]: [^;]*;`, "g");
  return [...source.matchAll(lines)].map(([line]) => line.replaceAll(/"\s*<<\s*"/g, "")).join("\n");
}

/** The sizes that the source checks, by dimension: a fixed size, or the bounds of a free size. */
function sizesOf(checks: string): (number | Omit<FreeSize, "name">)[] {
  const sizes: (number | Omit<FreeSize, "name">)[] = [];
  const pattern = /(unmatched dim value|too small|too large) at (\d+), expected(?: it)?(?: to be)?[^\d]*(\d+)/g;
  for (const [, kind, place = "", bound = ""] of checks.matchAll(pattern)) {
    const before = sizes[Number(place)];
    const range = typeof before === "object" ? before : { min: 1, max: Number.POSITIVE_INFINITY };
    if (kind === "unmatched dim value") sizes[Number(place)] = Number(bound);
    else if (kind === "too small") sizes[Number(place)] = { ...range, min: Math.max(1, Number(bound)) };
    else sizes[Number(place)] = { ...range, max: Number(bound) };
  }
  return sizes;
}

interface Tree {
  readonly names: readonly string[];
  readonly children: readonly Tree[];
}

/** A pytree in PyTorch's JSON. `context` is a string that contains the keys of a dict as JSON. */
const treeSchema: z.ZodType<Tree> = z.lazy(() =>
  z
    .looseObject({ context: z.unknown(), children_spec: z.array(treeSchema) })
    .transform(({ context, children_spec: children }) => ({ names: namesOf(context), children })),
);
const specSchema = z.tuple([z.number(), treeSchema]);

function treeOf(source: string, field: string): Tree | undefined {
  const text = new RegExp(`${field} = R"\\((.*)\\)";`).exec(source)?.[1];
  return text === undefined ? undefined : specSchema.safeParse(JSON.parse(text)).data?.[1];
}

function namesOf(context: unknown): readonly string[] {
  if (typeof context !== "string" || !context.startsWith("[")) return [];
  return z.array(z.string()).safeParse(JSON.parse(context)).data ?? [];
}
