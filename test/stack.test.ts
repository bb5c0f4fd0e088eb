/** `stack` and `unstack`, with which model code makes and splits batches itself. */
import { describe, expect, test } from "bun:test";
import { stack, unstack } from "../src/author/stack.ts";
import { tensor } from "../src/author/tensor.ts";

describe("stack", () => {
  test("joins tensors of one shape, for each kind of array", () => {
    expect(stack([tensor.float32([1, 2]), tensor.float32([3, 4])])).toEqual(tensor.float32([1, 2, 3, 4], [2, 2]));
    expect(stack([tensor.int64(5), tensor.int64(6)])).toEqual(tensor.int64([5, 6]));
    expect(stack([tensor.bool([true, false])])).toEqual(tensor.bool([true, false], [1, 2]));
  });

  test("pads every dimension to the longest tensor", () => {
    const [short, long] = [tensor.int64([1, 2], [1, 2]), tensor.int64([3, 4, 5], [3, 1])];
    expect(stack([short, long], { pad: -1 })).toEqual(
      tensor.int64([1, 2, -1, -1, -1, -1, 3, -1, 4, -1, 5, -1], [2, 3, 2]),
    );
    expect(stack([tensor.float32([], [0]), tensor.float32([7])], { pad: 0.5 })).toEqual(
      tensor.float32([0.5, 7], [2, 1]),
    );
  });

  test("refuses tensors that do not fit together, with the fix", () => {
    expect(() => stack([])).toThrow("stack needs at least one tensor");
    expect(() => stack([tensor.float32([1]), tensor.float32([1, 2])])).toThrow(
      "stack: float32(1) and float32(2) do not fit together; stack(tensors, { pad: 0 }) fills up the shorter one",
    );
    expect(() => stack([tensor.float32([1]), tensor.float32(1)], { pad: 0 })).toThrow(
      "stack: float32(1) and float32() do not fit together",
    );
    expect(() => stack([tensor.uint8([1])], { pad: 300 })).toThrow("stack: pad 300 is not");
  });
});

test("unstack gives the rows of a tensor", () => {
  expect(unstack(tensor.float32([1, 2, 3, 4], [2, 2]))).toEqual([tensor.float32([1, 2]), tensor.float32([3, 4])]);
  expect(unstack(tensor.int64([1, 2]))).toEqual([tensor.int64(1), tensor.int64(2)]);
});
