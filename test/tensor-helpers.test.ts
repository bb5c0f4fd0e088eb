/** Functions for tensors in model code: tensor.DTYPE(), item(), argmax, topK and softmax. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { argmax, type DType, softmax, tensor, topK } from "../src/index.ts";
import { failureOf } from "./helpers/failure.ts";

const failing = (run: () => unknown) => failureOf(Promise.try(run)).then(({ message }) => message);

describe("tensor.DTYPE()", () => {
  test("makes a tensor without dimensions from a value, a vector from values, or the given shape", () => {
    expect(tensor.int64(7)).toEqual(tensor(BigInt64Array.of(7n), []));
    expect(tensor.int64([1, 2n])).toEqual(tensor(BigInt64Array.of(1n, 2n), [2]));
    expect(tensor.float32(new Set([1, 2, 3, 4]), [2, 2])).toEqual(tensor(Float32Array.of(1, 2, 3, 4), [2, 2]));
    expect(tensor.bool([true, false, 1])).toEqual(tensor(Uint8Array.of(1, 0, 1), [3], "bool"));
    expect(tensor(Float32Array.of(1, 2)).shape).toEqual([2]);
    expect(tensor.uint8([]).shape).toEqual([0]);
  });

  test("rounds floats to the dtype, and keeps infinities and NaN, as item() shows", () => {
    for (const dtype of ["float32", "float64", "float16", "bfloat16"] as const) {
      for (const value of [0, -1.5, Infinity, -Infinity, Number.NaN]) expect(tensor[dtype](value).item()).toBe(value);
    }
    expect(tensor.float16(0.1).item()).toBe(0.0999755859375);
    expect(tensor.bfloat16(0.1).item()).toBe(0.10009765625);
  });

  test("refuses a value that the dtype cannot hold", async () => {
    const beyond: readonly [Exclude<DType, `${string}float${string}`>, number | bigint][] = [
      ["int8", 128],
      ["uint8", -1],
      ["int16", 1.5],
      ["int32", 2 ** 31],
      ["int64", 2 ** 53],
      ["int64", 2n ** 63n],
      ["bool", 2],
    ];
    for (const [dtype, value] of beyond) {
      expect(await failing(() => tensor[dtype]([value]))).toStartWith(`tensor.${dtype}: ${value} is not `);
    }
    expect(tensor.int64(-(2n ** 63n)).data[0]).toBe(-(2n ** 63n));
    expect(await failing(() => tensor.float32([1, 2], [3]))).toContain("shape [3]");
  });
});

describe("item()", () => {
  test("gives a number or a boolean", () => {
    expect(tensor.int64([[3][0] ?? 0]).item()).toBe(3);
    expect(tensor.bool(true).item()).toBe(true);
    expect(tensor(Float32Array.of(0.5), [1, 1]).item()).toBe(0.5);
  });

  test("refuses tensors that do not have one element, and an int64 that a number would round", async () => {
    expect(await failing(() => tensor.float32([1, 2]).item())).toBe("item() is for 1 element, the tensor has 2");
    expect(await failing(() => tensor.float32([]).item())).toBe("item() is for 1 element, the tensor has 0");
    expect(await failing(() => tensor.int64(2n ** 60n).item())).toContain("read data[0], a bigint");
  });
});

describe("argmax and topK", () => {
  test("order elements of each dtype, NaN first and equal elements in their order", () => {
    const values = [1, 5, 2, 5, -3];
    for (const dtype of ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64"] as const) {
      const vector = tensor[dtype](values);
      expect(argmax(vector)).toBe(1);
      expect(topK(vector, 3)).toEqual([
        { index: 1, score: 5 },
        { index: 3, score: 5 },
        { index: 2, score: 2 },
      ]);
    }
    const withNaN = tensor.float32([1, Number.NaN, Infinity]);
    expect(argmax(withNaN)).toBe(1);
    expect(topK(withNaN, 9).map(({ index }) => index)).toEqual([1, 2, 0]);
  });

  test("can return labels", () => {
    const [best] = topK(tensor.float32([0.25, 0.75]), 1, ["cat", "dog"]);
    best?.label satisfies "cat" | "dog" | undefined;
    expect(best).toEqual({ label: "dog", index: 1, score: 0.75 });
  });

  test("agree with each other and with the largest element", () => {
    fc.assert(
      fc.property(fc.array(fc.float(), { minLength: 1 }), fc.nat(20), (values, k) => {
        const vector = tensor.float32(values);
        const ranked = topK(vector, k);
        expect(ranked.length).toBe(Math.min(k, values.length));
        if (k > 0) expect(ranked[0]?.index).toBe(argmax(vector));
        if (k > 0 && !values.some(Number.isNaN)) expect(ranked[0]?.score).toBe(Math.max(...values));
      }),
    );
  });

  test("refuse other shapes, and too many elements", async () => {
    expect(await failing(() => argmax(tensor.float32([])))).toBe("argmax: the tensor has no element");
    expect(await failing(() => topK(tensor.float32([1, 2], [2, 1]), 1))).toBe(
      "topK is for a vector, not for shape [2,1]",
    );
    expect(await failing(() => topK(tensor.float32([1, 2]), 1, ["a"]))).toBe("topK: there are 1 labels for 2 elements");
  });
});

test("softmax equals PyTorch's, over the last dimension", () => {
  // The expected values are those of torch.softmax(torch.tensor([[1., 2, 3], [1000, 0, -1000]]), -1).
  const { dtype, shape, data } = softmax(tensor.float32([1, 2, 3, 1000, 0, -1000], [2, 3]));
  expect([dtype, shape]).toEqual(["float32", [2, 3]]);
  const expected = [0.09003057, 0.24472848, 0.66524094, 1, 0, 0];
  for (const [i, value] of data.entries()) expect(value).toBeCloseTo(expected[i] ?? Number.NaN, 6);
  expect(softmax(tensor.float64([0, 0])).data).toEqual(Float64Array.of(0.5, 0.5));
  expect(softmax(tensor.float16([0, 0])).data).toEqual(Float32Array.of(0.5, 0.5));
  expect(softmax(tensor.float32([])).shape).toEqual([0]);
});
