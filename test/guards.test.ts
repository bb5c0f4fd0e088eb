/** Guards of exported programs: read as Python reads them, and checked for each item before it is queued. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { float32, float64, int32, pad, type Tensor, type TensorSpecs } from "../src/author/tensor.ts";
import { Batcher } from "../src/engine/batching/batcher.ts";
import type { BatchItem } from "../src/engine/batching/batching.ts";
import { itemCheck } from "../src/engine/item-check.ts";
import { openSession } from "../src/engine/native/binding.ts";
import { guardExpression } from "../src/engine/program/guard-expression.ts";
import { type GuardSource, programGuards } from "../src/engine/program/program-guards.ts";
import { SessionGuards } from "../src/engine/program/session-guards.ts";
import { guardValues } from "./helpers/exports.ts";
import { filled } from "./helpers/tensors.ts";
import { fixtures } from "./helpers/weights.ts";

const valuesSchema = z.object({
  shapes: z.array(z.array(z.array(z.number()))),
  guards: z.array(z.object({ guard: z.string(), values: z.array(z.boolean().nullable()) })),
});

test("a guard has the value that Python computes, and none where Python refuses the computation", async () => {
  const { shapes, guards } = valuesSchema.parse(await Bun.file(await guardValues()).json());
  expect(guards.length).toBeGreaterThan(600);
  for (const { guard, values } of guards) {
    const compute = guardExpression(guard, ([name = ""]) => ["x", "y"].indexOf(name));
    const given = shapes.map((each) => {
      try {
        return compute(each) !== 0;
      } catch {
        return null;
      }
    });
    expect([guard, given]).toEqual([guard, values]);
  }
}, 60_000);

test("a guard that needs larger integers than a double holds is refused, not computed wrongly", () => {
  const compute = guardExpression("L['x'].size()[0]**4 % 2 == 0", () => 0);
  expect(compute([[1001]])).toBe(0);
  expect(() => compute([[100_001]])).toThrow("larger integers than 53 bits");
});

test("an unsupported guard is refused by name", () => {
  const inputs = [{ name: "x", sizes: [{ as_int: 2 }] }];
  for (const guard of [
    "sympy.gamma(L['x'].size()[0]) == 1",
    "L['z'].size()[0] == 1",
    "1 < L['x'].size()[0] < 4",
    "round(L['x'].size()[0] / 3, 1) > 2.0",
    "constructor(L['x'].size()[0]) == 1",
  ]) {
    expect(() => programGuards({ inputs, ranges: {}, code: [guard] })).toThrow("it has a guard that sconce does not");
  }
});

const symbol = (name: string) => ({ as_expr: { expr_str: `Symbol('${name}', positive=True, integer=True)` } });
const zeros = (...shape: number[]) => filled(0, ...shape);

function guards(source: Partial<GuardSource>, declared: TensorSpecs = { x: float32("width") }): SessionGuards {
  return new SessionGuards(programGuards({ inputs: [], ranges: {}, code: [], ...source }), declared);
}

test("sizes that are multiples of a common size must agree", () => {
  const multiple = (factor: number) => ({
    as_expr: { expr_str: `Mul(Integer(${factor}), Symbol('s0', positive=True, integer=True))` },
  });
  const inputs = [
    { name: "x", sizes: [symbol("rows"), multiple(2)] },
    { name: "y", sizes: [symbol("rows"), multiple(3)] },
  ];
  const checked = guards(
    { inputs, ranges: { s0: { min_val: 2, max_val: 8 } } },
    { x: float32("width"), y: float32(9) },
  );
  expect(checked.rowsFor([[zeros(4), zeros(6)]])).toBe(1);
  expect(() => checked.rowsFor([[zeros(4), zeros(9)]])).toThrow(
    "dimension 1 of the tensor y is 9, which does not fit: x: width is 4",
  );
  expect(() => checked.rowsFor([[zeros(18), zeros(27)]])).toThrow("x: width must be at most 16, received 18");
  const rows = programGuards({
    inputs: [{ name: "x", sizes: [multiple(2)] }],
    ranges: { s0: { max_val: 8 } },
    code: [],
  });
  expect(rows.mostRows).toBe(16);
});

test("a size is refused in the words of the declaration, whatever the declared order", () => {
  const inputs = [
    { name: "image", sizes: [symbol("rows"), symbol("s1"), symbol("s2"), { as_int: 3 }] },
    { name: "mask", sizes: [symbol("rows"), symbol("s1")] },
  ];
  const ranges = { s1: { min_val: 9 }, s2: { max_val: 640 } };
  const refusal = (declared: TensorSpecs, ...tensors: Tensor[]) => {
    const checked = guards({ inputs, ranges }, declared);
    return () => checked.rowsFor([tensors]);
  };
  const named = { mask: float32("lines"), image: float32("height", pad("width", 0), "channels") };
  for (const [mask, image, message] of [
    [zeros(5), zeros(5, 9, 3), "image: height must be at least 9, received 5"],
    [zeros(9), zeros(9, 700, 3), "image: width must be at most 640, received 700"],
    [zeros(9), zeros(9, 9, 1), "image: channels must be 3, received 1"],
    [zeros(8), zeros(9, 9, 3), "mask: lines must be 9, received 8; image: height is 9"],
  ] as const) {
    expect(refusal(named, mask, image)).toThrow(message);
  }
  expect(refusal({}, zeros(5, 9, 3), zeros(5))).toThrow(
    "dimension 1 of the tensor image must be at least 9, received 5",
  );
});

test("an input of another dtype than the program asserts is refused", () => {
  const checked = guards({ inputs: [{ name: "x", sizes: [symbol("rows"), symbol("s1")], dtype: 7 }] });
  expect(() => checked.rowsFor([[zeros(4)]])).toThrow("x: dtype must be float64, received float32");
});

test("guards about rows find the next size that they accept, at most 64 rows larger", () => {
  const inputs = [{ name: "x", sizes: [symbol("rows"), symbol("s1")] }];
  const rowsFor = (code: string, rows: number) =>
    guards({ inputs, code: [code] }).rowsFor(Array(rows).fill([zeros(3)]));
  expect(rowsFor("L['x'].size()[0] % 8 == 0", 9)).toBe(16);
  expect(rowsFor("L['x'].size()[0] >= 65", 1)).toBe(65);
  expect(() => rowsFor("L['x'].size()[0] >= 66", 1)).toThrow("the guard x.size()[0] >= 66 fails (x is [1, 3]");
});

test("a batch is checked with the sizes of its longest items, in the order of the program's inputs", () => {
  const inputs = ["a", "b"].map((name) => ({ name, sizes: [symbol("rows"), symbol(name)] }));
  const checked = guards(
    { inputs, code: ["L['a'].size()[1]*L['b'].size()[1] <= 8"] },
    { b: float32("y"), a: float32(pad("x", 0)) },
  );
  const items = [
    [zeros(1), zeros(8)],
    [zeros(2), zeros(4)],
  ];
  for (const item of items) expect(checked.rowsFor([item])).toBe(1);
  expect(() => checked.rowsFor(items)).toThrow(
    "the guard a.x*b.y <= 8 fails (a is [2, 8], b is [2, 2] with the batch first)",
  );
});

test("an item that breaks a guard fails before it is queued, and the other items share one batch", async () => {
  const path = join((await fixtures()).path("programs"), "steps.pt2");
  const inputs = { mask: float32("length"), x: float32("length", 4) };
  const outputs = { flat: float32("flat"), picked: float32("length", 2), best: float64("length"), at: int32("length") };
  const session = await openSession({ path, device: "cpu", threads: 1, inputs, outputs });
  const check = itemCheck(inputs);
  const item = (length: number): BatchItem => ({
    ...check({ mask: zeros(length), x: zeros(length, 4) }),
    lane: {},
    readyAtMs: 0,
    ahead: 0,
  });
  const sizes: number[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const batcher = new Batcher<BatchItem>(
    { runners: [session], maxBatchSize: 8, maxQueueDelayMs: 0 },
    {
      dispatched: (items) => sizes.push(items.length),
      finished: () => resolve(),
      failed: (_, error) => reject(error),
      part: () => {},
      isNeeded: () => true,
    },
  );
  batcher.submit(item(7));
  expect(() => batcher.submit(item(3))).toThrow("x: length must be at least 4, received 3");
  batcher.submit(item(7));
  await promise;
  expect(sizes).toEqual([2]);
  await session.dispose();
});
