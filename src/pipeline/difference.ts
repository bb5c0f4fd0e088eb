/** Compares outputs of the same inputs, and decides whether rounding explains a difference. */
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

/**
 * Largest absolute difference between elements of `expected` and of each tensor in `rows`. Infinity for different
 * shapes, or if only one of two elements is finite. Undefined tensors are skipped.
 */
export function differenceOf(expected: Tensor | undefined, rows: readonly (Tensor | undefined)[]): number {
  let difference = 0;
  for (const given of rows) {
    if (expected === undefined || given === undefined) continue;
    if (expected.shape.join() !== given.shape.join()) return Infinity;
    const { write } = elements[expected.dtype];
    for (let i = 0; i < expected.data.length; i++) {
      const [one, another] = [write(expected.data[i] ?? 0), write(given.data[i] ?? 0)];
      if (one === another) continue;
      if (one === undefined || another === undefined) return Infinity;
      difference = Math.max(difference, Math.abs(Number(one) - Number(another)));
    }
  }
  return difference;
}

/** Returns a function that tells whether a difference from `expected` is too large for rounding. */
export function beyondRounding(expected: Tensor | undefined): (difference: number) => boolean {
  return beyond(expected, tolerances);
}

/**
 * Like `beyondRounding`, but with a limit of 1e-4 of the largest number for float32 and float64: both outputs come from
 * the same operators on the same processor.
 */
export function beyondReference(expected: Tensor | undefined): (difference: number) => boolean {
  return beyond(expected, { ...tolerances, float32: 1e-4, float64: 1e-4 });
}

function beyond(expected: Tensor | undefined, shares: typeof tolerances): (difference: number) => boolean {
  if (expected === undefined) return () => false;
  const { write } = elements[expected.dtype];
  let largest = 0;
  for (const each of expected.data) largest = Math.max(largest, Math.abs(Number(write(each) ?? 0)));
  return (difference) => difference > Math.max(LEAST_DIFFERENCE, shares[expected.dtype] * largest);
}

export function text(difference: number): string {
  return difference === Infinity ? "more than a number can say" : String(Number(difference.toPrecision(2)));
}
