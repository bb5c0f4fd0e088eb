/** Reads the inputs of an AOTInductor package from its C++ source, which checks each input before a run. */
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

/**
 * The inputs of an AOTInductor package in call order, from its C++ source; undefined if the source lacks them.
 * @param named names of the inputs that are given by name
 */
export function inputsOfSource(source: string, named: readonly string[]): TensorInput[] | undefined {
  const slots = [...source.matchAll(/inputs_info_\[\d+\]\.name = "(\w+)"/g)].map(([, slot = ""]) => slot);
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
