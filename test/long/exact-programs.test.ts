/** Exported programs give the values, dtypes and shapes of PyTorch's `ep.module()`, and refuse the same inputs. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { float32, type Tensor } from "../../src/author/tensor.ts";
import { statedInputs } from "../../src/cli/build/plain/plain-model.ts";
import { exactPrograms } from "../helpers/exports.ts";
import { failure } from "../helpers/failure.ts";
import { sessions } from "../helpers/sessions.ts";
import { storedTensor } from "../helpers/tensors.ts";

const casesSchema = z.array(
  z.object({
    name: z.string(),
    file: z.string(),
    calls: z.array(z.object({ inputs: z.array(storedTensor), outputs: z.array(storedTensor).nullable() })),
  }),
);

const folder = await exactPrograms();
const open = sessions();
const cases = casesSchema.parse(await Bun.file(join(folder, "cases.json")).json());

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
    const session = await open({ path: join(folder, file) });
    for (const { inputs, outputs } of calls) {
      const sizes = `${name} ${inputs.map(({ shape }) => `[${shape}]`)}`;
      if (outputs === null) {
        expect([sizes, await failure(session.call("forward", inputs))]).toEqual([
          sizes,
          expect.stringMatching(
            /^run_failed: ((the guard|a guard).* with the batch first\)|dimension \d of the tensor .*|[xy]: dtype must be .*|Runtime assertion failed .*|(linalg\.cholesky|take\(\)): .*)$/,
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

test("a program with a number that can vary is refused by name", async () => {
  const path = join(folder, "number.pt2");
  expect(await failure(open({ path }))).toBe(
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
    const session = await open({ path, ...specs });
    expect(await failure(session.run([[row(7)]]))).toBe(
      "run_failed: the guard (x.length % 2) == 0 fails (x is [1, 7] with the batch first)",
    );
    const [output] = await session.run([[row(4)], [row(4, 4)]]);
    expect([...(output?.data ?? [])]).toEqual([0, 2, 4, 6, 8, 10, 12, 14]);
  });
});

test("if a guard refuses the number of rows, sconce pads the batch and cuts its results", async () => {
  const specs = { inputs: { x: float32(3) }, outputs: { y: float32(3) } };
  const session = await open({ path: fileOf("an even batch"), ...specs });
  for (const rows of [1, 2, 3, 5]) {
    const [output] = await session.run(Array.from({ length: rows }, (_, i) => [row(3, i)]));
    expect([...(output?.data ?? [])]).toEqual(
      Array.from({ length: rows }, (_, i) => [2 * i, 2 * i + 2, 2 * i + 4]).flat(),
    );
  }
});
