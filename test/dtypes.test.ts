/** Values of every dtype are the same bits in sconce and PyTorch, in batches and in method calls. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { bfloat16Bits, float16Bits } from "../src/author/elements.ts";
import { arrayTypes, type DType, pad, type Tensor, type TensorSpec } from "../src/author/tensor.ts";
import { batchStacker, openSession } from "../src/engine/native/binding.ts";
import { fixture } from "./helpers/fixture.ts";
import { sessions } from "./helpers/sessions.ts";
import { elementsIn, itemsOf } from "./helpers/tensors.ts";
import references from "./models/dtypes.json" with { type: "json" };

const path = join(import.meta.dir, "models/dtypes.pt");
const columns = 6;
const referenceSchema = z.object({ input: z.base64(), outputs: z.array(z.base64()).length(3) });
const dtypes = Object.keys(arrayTypes).filter((name): name is DType => name in arrayTypes);

for (const dtype of dtypes) {
  describe(dtype, () => {
    const reference = referenceSchema.parse(Reflect.get(references, dtype));
    const input = elementsIn(dtype, reference.input);
    const expected = reference.outputs.map(
      (text): Tensor => ({ dtype, shape: [2, columns], data: elementsIn(dtype, text) }),
    );
    const spec: TensorSpec = { dtype, dims: [columns] };
    const open = sessions();
    const outputs = { flipped: spec, larger: spec, twice: spec };
    const session = fixture(() => open({ path, inputs: { x: spec }, outputs }));

    test("has PyTorch's values in a batch, to the limits of its range", async () => {
      expect(await session.run(itemsOf([{ dtype, shape: [2, columns], data: input }]))).toEqual(expected);
    });

    test("has PyTorch's values in a method call", async () => {
      const result = await session.call("forward", [{ dtype, shape: [2, columns], data: input }]);
      expect(result).toEqual(expected);
    });

    test("is padded with the bits of the declared value, in batches and for `predict`", async () => {
      const fill = dtype === "bool" ? 1 : 3;
      const dims = [pad("columns", fill)];
      const padded = await open({
        path,
        inputs: { x: { dtype, dims } },
        outputs: { flipped: { dtype, dims }, larger: { dtype, dims }, twice: { dtype, dims } },
      });
      const items = [4, columns].map((length): Tensor[] => [{ dtype, shape: [length], data: input.slice(0, length) }]);
      const { x } = batchStacker({ x: { dtype, dims } })(items);
      if (x === undefined) throw new Error("the stack has no x");
      expect(x.shape).toEqual([2, columns]);
      const bits = { float16: float16Bits(fill), bfloat16: bfloat16Bits(fill), int64: BigInt(fill) };
      const value = Reflect.get(bits, dtype) ?? fill;
      expect([...x.data]).toEqual([...input.slice(0, 4), value, value, ...input.slice(0, columns)]);
      expect(await padded.run(items)).toEqual(await session.run(itemsOf([x])));
    });
  });
}

test("two padded dimensions around a fixed dimension are each padded with their own value", async () => {
  const dims = [pad("rows", -1), 2, pad("columns", 7)];
  const item = (rows: number, columns: number): Tensor[] => {
    const data = Float32Array.from({ length: rows * 2 * columns }, (_, i) => i + 10 * rows);
    return [{ dtype: "float32", shape: [rows, 2, columns], data }];
  };
  const sizes = [
    { rows: 3, columns: 1 },
    { rows: 1, columns: 4 },
    { rows: 2, columns: 2 },
    { rows: 0, columns: 3 },
  ];
  const items = sizes.map(({ rows, columns }) => item(rows, columns));
  const { x } = batchStacker({ x: { dtype: "float32", dims } })(items);
  if (x === undefined) throw new Error("the stack has no x");
  const results = await Promise.all(
    [dims, [3, 2, 4]].map(async (declared) => {
      const spec: TensorSpec = { dtype: "float32", dims: declared };
      const outputs = { flipped: spec, larger: spec, twice: spec };
      const session = await openSession({ path, device: "cpu", threads: 1, inputs: { x: spec }, outputs });
      const result = await session.run(declared === dims ? items : itemsOf([x]));
      await session.dispose();
      return result;
    }),
  );
  expect(x.shape).toEqual([4, 3, 2, 4]);
  const expected = sizes.flatMap(({ rows, columns }) =>
    Array.from({ length: 3 * 2 * 4 }, (_, at) => {
      const [line, column] = [Math.floor(at / 4), at % 4];
      if (line >= 2 * rows) return -1;
      return column >= columns ? 7 : line * columns + column + 10 * rows;
    }),
  );
  expect([...x.data]).toEqual(expected);
  expect(results[0]).toEqual(results[1] ?? []);
});
