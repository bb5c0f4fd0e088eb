/** Compares a result of sconce with PyTorch's result: dtype, shape and each element. */
import type { CallResult } from "../../src/author/session.ts";
import type { DType, Tensor } from "../../src/author/tensor.ts";

/**
 * `same`: equal bits (any NaN equals any other). `close`: within the tolerance. `beyond`: not within the tolerance,
 * but as close to PyTorch's float64 results as PyTorch's own results are. `different`: none of these.
 */
export type Comparison =
  | { readonly kind: "same" | "close" }
  | { readonly kind: "beyond" | "different"; readonly how: string };

export interface CompareOptions {
  /** Allowed difference, relative to the largest element. Default: by dtype. */
  readonly tolerance?: number | undefined;
  readonly exact?: Exact | undefined;
  readonly shapesOnly?: boolean;
  /** Whether a GPU computed the result: its convolutions round float32 to 10 bits (TF32). */
  readonly isOnGpu?: boolean;
}

/** Results that PyTorch computed in float64. */
export interface Exact {
  readonly outputs: readonly (Tensor | string)[];
  /** Difference between PyTorch's results and `outputs`, relative to the largest element of an output. */
  readonly distance: number;
}

/**
 * Default tolerances, relative to the largest element of an output. Sums in another order differ by several
 * roundings.
 */
const tolerances: Partial<Record<DType, number>> = { float64: 1e-12, float32: 1e-5, float16: 2e-3, bfloat16: 1.6e-2 };

const TF32_TOLERANCE = 2e-3;
/** A result is as exact as PyTorch's if its distance from the float64 result is at most this multiple of PyTorch's. */
const AS_EXACT = 1.1;

/** The tensors of a nested result and its other values as Python prints them, in order, without None. */
export function leavesOf(result: CallResult): (Tensor | string)[] {
  if (result === null) return [];
  if (typeof result !== "object") return [printedAsPython(result)];
  if (isTensor(result)) return [result];
  return (Array.isArray(result) ? result : Object.values(result)).flatMap(leavesOf);
}

export function compare(
  got: readonly (Tensor | string)[],
  expected: readonly (Tensor | string)[],
  options: CompareOptions = {},
): Comparison {
  if (got.length !== expected.length) {
    return { kind: "different", how: `${got.length} outputs, expected ${expected.length}` };
  }
  let worst: Comparison = { kind: "same" };
  for (const [i, mine] of got.entries()) {
    const result = compareLeaf(mine, expected[i] ?? "nothing", { ...options, exactly: options.exact?.outputs[i] });
    if (severity[result.kind] <= severity[worst.kind]) continue;
    worst = "how" in result ? { kind: result.kind, how: `output ${i}: ${result.how}` } : result;
  }
  return worst;
}

const severity = { same: 0, close: 1, beyond: 2, different: 3 } satisfies Record<Comparison["kind"], number>;

function compareLeaf(
  mine: Tensor | string,
  theirs: Tensor | string,
  {
    tolerance,
    exact,
    exactly,
    shapesOnly = false,
    isOnGpu = false,
  }: CompareOptions & { exactly: Tensor | string | undefined },
): Comparison {
  if (typeof mine === "string" || typeof theirs === "string") {
    if (mine === theirs || shapesOnly) return { kind: "same" };
    return { kind: "different", how: `${describe(mine)}, expected ${describe(theirs)}` };
  }
  if (mine.dtype !== theirs.dtype) return { kind: "different", how: `dtype ${mine.dtype}, expected ${theirs.dtype}` };
  if (mine.shape.join() !== theirs.shape.join()) {
    return { kind: "different", how: `shape [${mine.shape}], expected [${theirs.shape}]` };
  }
  if (shapesOnly) return { kind: "same" };
  const [a, b] = [numbersOf(mine), numbersOf(theirs)];
  const usual = isOnGpu && mine.dtype === "float32" ? TF32_TOLERANCE : tolerances[mine.dtype];
  const slack = isOnGpu && usual !== undefined ? Math.max(usual, tolerance ?? 0) : (tolerance ?? usual);
  let largest = 0;
  if (slack !== undefined)
    for (const value of b) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(Number(value)));
  let kind: "same" | "close" = "same";
  let farthest = { distance: 0, at: -1 };
  for (const [at, expected] of b.entries()) {
    const value = a[at];
    if (value === undefined || Object.is(value, expected)) continue;
    kind = "close";
    const isZeroOfOtherSign = value === expected;
    const distance = Math.abs(Number(value) - Number(expected));
    if (slack === undefined || isZeroOfOtherSign || !Number.isFinite(distance)) {
      return { kind: "different", how: `element ${at} is ${shown(value)}, expected ${shown(expected)}` };
    }
    if (distance > farthest.distance) farthest = { distance, at };
  }
  const { distance, at } = farthest;
  if (slack === undefined || distance <= slack * largest) return { kind };
  const relative = (value: number) => (value / largest).toExponential(1);
  const how = `element ${at} is ${shown(a[at] ?? 0)}, expected ${shown(b[at] ?? 0)}, ${relative(distance)} of the largest`;
  if (exact === undefined || exactly === undefined || typeof exactly === "string") return { kind: "different", how };
  const truth = numbersOf(exactly);
  const far = a.reduce<number>((most, value, i) => Math.max(most, Math.abs(Number(value) - Number(truth[i]))), 0);
  return {
    kind: far <= AS_EXACT * exact.distance * largest ? "beyond" : "different",
    how: `${how}; ${relative(far)} from float64, PyTorch ${exact.distance.toExponential(1)}`,
  };
}

function isTensor(value: Exclude<CallResult, null>): value is Tensor {
  return typeof value === "object" && "dtype" in value && "shape" in value && "data" in value;
}

function printedAsPython(value: number | bigint | boolean | string): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return String(value);
}

function describe(leaf: Tensor | string): string {
  return typeof leaf === "string" ? leaf : `${leaf.dtype} [${leaf.shape}]`;
}

function shown(value: number | bigint): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

/** The elements of a tensor as numbers; 16-bit floats are decoded. */
function numbersOf({ dtype, data }: Tensor): (number | bigint)[] {
  if (data instanceof Uint16Array && dtype === "float16") {
    return [...new Float16Array(data.buffer, data.byteOffset, data.length)];
  }
  if (data instanceof Uint16Array) return [...new Float32Array(Uint32Array.from(data, (bits) => bits << 16).buffer)];
  return [...data];
}
