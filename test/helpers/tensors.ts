/** Makes, splits and compares tensors. */
import { expect } from "bun:test";
import { z } from "zod";
import { arrayTypes, countOf, type DType, type Tensor } from "../../src/author/tensor.ts";

/** A tensor of float32 with equal elements. */
export function filled(value: number, ...shape: number[]): Tensor<"float32"> {
  return { dtype: "float32", shape, data: new Float32Array(countOf(shape)).fill(value) };
}

export const ones = (...shape: number[]) => filled(1, ...shape);

/** A tensor of float32 with one dimension. */
export function floats(...values: number[]): Tensor<"float32"> {
  return { dtype: "float32", shape: [values.length], data: Float32Array.from(values) };
}

/** The elements of a dtype whose bytes a text in base64 has. */
export function elementsIn(dtype: DType, base64: string): Tensor["data"] {
  return new arrayTypes[dtype](Uint8Array.fromBase64(base64).buffer);
}

/** A tensor in a JSON file that Python wrote. */
export const storedTensor = z
  .object({
    dtype: z.enum(["float16", "float32", "float64", "int64", "bool"]),
    shape: z.array(z.number()),
    data: z.base64().or(z.literal("")),
  })
  .transform((stored): Tensor => ({ ...stored, data: elementsIn(stored.dtype, stored.data) }));

/** The bytes of an array, without a copy. */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Splits stacked tensors into the items of a batch: items[i][j] is row i of tensor j. */
export function itemsOf(stacked: readonly Tensor[]): Tensor[][] {
  const rows = stacked[0]?.shape[0] ?? 0;
  return Array.from({ length: rows }, (_, row) =>
    stacked.map(({ dtype, shape, data }) => {
      const size = data.length / rows;
      return { dtype, shape: shape.slice(1), data: data.slice(row * size, (row + 1) * size) };
    }),
  );
}

/** Row `i` of each stacked tensor, in the shape of a batch of one. */
export function rowOf(stacked: readonly Tensor[], i: number): Tensor[] {
  return (itemsOf(stacked)[i] ?? []).map((tensor) => ({ ...tensor, shape: [1, ...tensor.shape] }));
}

export function greatestDifference(a: ArrayLike<number>, b: ArrayLike<number | bigint> = []): number {
  expect(a.length).toBe(b.length);
  return Array.from(a).reduce((most, value, i) => Math.max(most, Math.abs(value - Number(b[i] ?? Number.NaN))), 0);
}

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
