/** Compares outputs of the same inputs, and counts the elements whose difference exceeds rounding. */
import { elements } from "../author/elements.ts";
import type { DType, Tensor } from "../author/tensor.ts";

/**
 * Largest difference that counts as rounding, as a fraction of the largest absolute number in the output. Another batch
 * size sums in another order, and so rounds differently.
 */
export const tolerances: Readonly<Record<DType, number>> = {
  float32: 0.01,
  float64: 0.01,
  float16: 0.05,
  bfloat16: 0.05,
  int8: 0.02,
  uint8: 0.02,
  int16: 0,
  int32: 0,
  int64: 0,
  bool: 0,
};
/** Absolute differences up to this value always count as rounding. */
const LEAST_DIFFERENCE = 1e-6;

export interface Difference {
  /** Number of elements that differ by more than rounding. */
  readonly count: number;
  readonly total: number;
  /** Largest absolute difference. Infinity for different shapes, or if only one of two elements is finite. */
  readonly largest: number;
}

/** The difference between `expected` and the tensor in `rows` that differs most. Undefined tensors are skipped. */
export function differenceOf(expected: Tensor | undefined, rows: readonly (Tensor | undefined)[]): Difference {
  const total = expected?.data.length ?? 0;
  let most: Difference = { count: 0, total, largest: 0 };
  if (expected === undefined) return most;
  const { write } = elements[expected.dtype];
  const limit = roundingOf(expected);
  for (const given of rows) {
    if (given === undefined) continue;
    if (expected.shape.join() !== given.shape.join()) return { count: Math.max(1, total), total, largest: Infinity };
    let [count, largest] = [0, 0];
    for (let i = 0; i < total; i++) {
      const [one, another] = [write(expected.data[i] ?? 0), write(given.data[i] ?? 0)];
      if (one === another) continue;
      const isBoth = one !== undefined && another !== undefined;
      const difference = isBoth ? Math.abs(Number(one) - Number(another)) : Infinity;
      largest = Math.max(largest, difference);
      if (difference > limit) count += 1;
    }
    if (count > most.count || largest > most.largest)
      most = { count: Math.max(count, most.count), total, largest: Math.max(largest, most.largest) };
  }
  return most;
}

/** Largest difference from `expected` that counts as rounding. */
function roundingOf({ dtype, data }: Tensor): number {
  const { write } = elements[dtype];
  let largest = 0;
  for (const each of data) largest = Math.max(largest, Math.abs(Number(write(each) ?? 0)));
  return Math.max(LEAST_DIFFERENCE, tolerances[dtype] * largest);
}

export function text({ count, total, largest }: Difference): string {
  const size = largest === Infinity ? "more than a number can say" : String(Number(largest.toPrecision(2)));
  return `by up to ${size} in ${count} of ${total} elements`;
}
