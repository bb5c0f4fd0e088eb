/** Compares tensors with a tolerance. */
import { expect } from "bun:test";
import type { Tensor } from "../../src/author/tensor.ts";

/**
 * @param tolerance absolute and relative error of an element @returns a function that expects equal dtypes and shapes,
 * and close elements
 */
export const closeWithin = (tolerance: number) => (given: readonly Tensor[], expected: readonly Tensor[]) => {
  expect(given.map(({ dtype, shape }) => ({ dtype, shape: [...shape] }))).toEqual(
    expected.map(({ dtype, shape }) => ({ dtype, shape: [...shape] })),
  );
  for (const [i, { data }] of given.entries()) {
    const far = [...data].findIndex((value, at) => {
      const want = Number(expected[i]?.data[at]);
      return !(Math.abs(Number(value) - want) <= tolerance + tolerance * Math.abs(want));
    });
    expect([i, far]).toEqual([i, -1]);
  }
};
