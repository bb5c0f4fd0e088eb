/** Exported programs give the values, dtypes and shapes of PyTorch's `ep.module()`, and refuse the same inputs. */
import { beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { arrayTypes, float32, type Tensor } from "../../src/author/tensor.ts";
import { statedInputs } from "../../src/cli/commands/plain/plain-model.ts";
import { openSession } from "../../src/engine/native/binding.ts";
import { guardExpression } from "../../src/engine/native/guard-expression.ts";
import { programGuards } from "../../src/engine/native/program-guards.ts";
import { exactPrograms } from "../helpers/exports.ts";
import { failure } from "../helpers/failure.ts";

const tensorSchema = z
  .object({
    dtype: z.enum(["float32", "float64", "int64", "bool"]),
    shape: z.array(z.number()),
    data: z.base64(),
  })
  .transform(({ dtype, shape, data }): Tensor => {
    const { buffer } = new Uint8Array(Buffer.from(data, "base64"));
    return { dtype, shape, data: new arrayTypes[dtype](buffer) };
  });
const casesSchema = z.array(
  z.object({
    name: z.string(),
    file: z.string(),
    calls: z.array(z.object({ inputs: z.array(tensorSchema), outputs: z.array(tensorSchema).nullable() })),
  }),
);

let folder: string;
let cases: z.infer<typeof casesSchema>;

beforeAll(async () => {
  folder = await exactPrograms();
  cases = casesSchema.parse(await Bun.file(join(folder, "cases.json")).json());
}, 120_000);

/**
 * Checks dtype, shape and elements. 64-bit integers, infinities, NaN and zeros with their sign must be equal; other
 * numbers may differ by 1e-6, for rounded sums.
 */
function expectSame(given: Tensor | undefined, expected: Tensor): void {
  expect({ dtype: given?.dtype, shape: given?.shape }).toEqual({ dtype: expected.dtype, shape: expected.shape });
  const values = [...(given?.data ?? [])];
  for (const [i, value] of [...expected.data].entries()) {
    const got = values[i];
    const isExact = typeof value === "bigint" || value === 0 || !Number.isFinite(value);
    if (isExact) expect(Object.is(got, value)).toBe(true);
    else expect(Math.abs(Number(got) - value)).toBeLessThanOrEqual(1e-6 * Math.max(1, Math.abs(value)));
  }
}

test("every program gives the same outputs as PyTorch, and refuses the same sizes", async () => {
  expect(cases.length).toBeGreaterThan(40);
  for (const { name, file, calls } of cases) {
    await using session = await opened(join(folder, file));
    for (const { inputs, outputs } of calls) {
      const sizes = `${name} ${inputs.map(({ shape }) => `[${shape}]`)}`;
      if (outputs === null) {
        expect([sizes, await failure(session.call("forward", inputs))]).toEqual([
          sizes,
          expect.stringMatching(
            /^run_failed: ((the guard|a guard|x: size|y: size).* with the batch first\)|Runtime assertion failed .*|(linalg\.cholesky|take\(\)): .*)$/,
          ),
        ]);
        continue;
      }
      // The second run counts, because libtorch's executor may optimize a program after its first run.
      await session.call("forward", inputs);
      const result = await session.call("forward", inputs);
      const given = z.array(z.custom<Tensor>()).parse(Array.isArray(result) ? result : [result]);
      expect(given).toHaveLength(outputs.length);
      for (const [i, expected] of outputs.entries()) expectSame(given[i], expected);
    }
  }
}, 60_000);

async function opened(path: string) {
  const session = await openSession({ path, device: "cpu", threads: 1 });
  return { call: session.call.bind(session), [Symbol.asyncDispose]: () => session.dispose() };
}

test("a program with a number that can vary is refused by name", async () => {
  const path = join(folder, "number.pt2");
  expect(await failure(opened(path))).toBe(
    "weights_invalid: number.pt2 can't be run uncompiled: its input by is not a tensor: export it with a fixed value, or as a tensor",
  );
  expect(() => statedInputs(path)).toThrow("its input by is not a tensor");
});

function fileOf(name: string): string {
  return join(folder, cases.find((one) => one.name === name)?.file ?? "");
}

const row = (length: number, start = 0) =>
  ({ dtype: "float32", shape: [length], data: Float32Array.from({ length }, (_, i) => start + i) }) as const;

describe.each([false, true])("in batches, compiled: %p", (isCompiled) => {
  test("a guard refuses the batch with its expression and the sizes, and other batches run", async () => {
    const path = isCompiled ? join(folder, "even-compiled.pt2") : fileOf("a branch by an even size");
    const specs = { inputs: { x: float32("length") }, outputs: { y: float32("length") } };
    const session = await openSession({ path, device: "cpu", threads: 1, ...specs });
    try {
      expect(await failure(session.run([[row(7)]]))).toBe(
        "run_failed: the guard (x.size()[1] % 2) == 0 fails (x is [1, 7] with the batch first)",
      );
      const [output] = await session.run([[row(4)], [row(4, 4)]]);
      expect([...(output?.data ?? [])]).toEqual([0, 2, 4, 6, 8, 10, 12, 14]);
    } finally {
      await session.dispose();
    }
  });
});

test("if a guard refuses the number of rows, sconce pads the batch and cuts its results", async () => {
  const specs = { inputs: { x: float32(3) }, outputs: { y: float32(3) } };
  const session = await openSession({ path: fileOf("an even batch"), device: "cpu", threads: 1, ...specs });
  try {
    for (const rows of [1, 2, 3, 5]) {
      const [output] = await session.run(Array.from({ length: rows }, (_, i) => [row(3, i)]));
      expect([...(output?.data ?? [])]).toEqual(
        Array.from({ length: rows }, (_, i) => [2 * i, 2 * i + 2, 2 * i + 4]).flat(),
      );
    }
  } finally {
    await session.dispose();
  }
});

test("guards are read in the notation in which PyTorch prints them", () => {
  const read = (code: string) => guardExpression(code, ([name]) => name);
  expect(read("((-1) + (L['x'].size()[1] // 80)) != 1")).toBe("(((-1) + (x.size(1) // 80)) != 1)");
  expect(read("math.trunc(0.6*torch.sym_float(L['x'].size()[1])) == 12")).toBe(
    "(_ops_aten.Int((0.6 * _ops_aten.Float(x.size(1)))) == 12)",
  );
  expect(read("(-1)*torch.sym_min(4, L['x'].size()[0]) >= (-1)*torch.sym_max(L['x'].size()[1], 3)")).toBe(
    "(((-1) * _ops_prim.min(4, x.size(0))) >= ((-1) * _ops_prim.max(x.size(1), 3)))",
  );
  expect(read("not (L['x'].size()[0]**2 < 5 or L['y'].stride()[1] == 1)")).toBe(
    "(not (((x.size(0) * x.size(0)) < 5) or (y.stride(1) == 1)))",
  );
  expect(read("round(torch.sym_float(L['x'].size()[0]) ** (-1.0)) <= 9223372036854775808")).toBe("(True)");
});

test("an unsupported guard is refused by name", () => {
  const inputs = [{ name: "x", sizes: [{ as_int: 2 }] }];
  for (const guard of [
    "sympy.gamma(L['x'].size()[0]) == 1",
    "L['z'].size()[0] == 1",
    "1 < L['x'].size()[0] < 4",
    "round(L['x'].size()[0] / 3, 1) > 2.0",
    "L['x'].size()[0] + 9223372036854775808 > 4",
    "2**L['x'].size()[0] > 8",
  ]) {
    expect(() => programGuards({ inputs, ranges: {}, code: [guard] })).toThrow("it has a guard that sconce does not");
  }
});

test("sizes that are multiples of a common size must agree", () => {
  const multiple = (factor: number) =>
    ({ as_expr: { expr_str: `Mul(Integer(${factor}), Symbol('s0', positive=True, integer=True))` } }) as const;
  const inputs = [
    { name: "x", sizes: [multiple(2)] },
    { name: "y", sizes: [multiple(3)] },
  ];
  const { source, mostRows } = programGuards({ inputs, ranges: { s0: { min_val: 2, max_val: 8 } }, code: [] });
  expect(source).toContain("(x0.size(0) - 0) * 3 == (x1.size(0) - 0) * 2");
  expect(source).toContain("x1.size(0) <= 24");
  expect(mostRows).toBe(16);
});
