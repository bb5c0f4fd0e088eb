/** Tensors that a session returns stay on the device until code reads them, and are freed with their batch. */
import { describe, expect, test } from "bun:test";
import type { DeviceTensor, Predict } from "../src/author/session.ts";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import type { NativeSession } from "../src/engine/native/binding.ts";
import { NativeTensor } from "../src/engine/native/native-tensor.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import type { Runner } from "../src/engine/runner.ts";
import { appendingProgram, deviceTensors } from "./helpers/exports.ts";
import { failure } from "./helpers/failure.ts";
import { fixture } from "./helpers/fixture.ts";
import { ownBytes } from "./helpers/own-memory.ts";
import { until } from "./helpers/running.ts";
import { sessions } from "./helpers/sessions.ts";
import { floats } from "./helpers/tensors.ts";

const [path, program] = [await deviceTensors(), await appendingProgram()];
const open = sessions();
const session = fixture(() => open({ path }));
const other = fixture(() => open({ path }));

async function tensorOf(
  method: string,
  ...args: Parameters<NativeSession["call"]>[1]
): Promise<NativeTensor<"float32">> {
  const result = await session.call(method, args);
  if (!(result instanceof NativeTensor)) throw new Error(`${method} gave no tensor`);
  return result as NativeTensor<"float32">;
}

describe("a result of a session", () => {
  test("states dtype, shape and device before its elements are read", async () => {
    const result = await tensorOf("forward", floats(1, 2));
    expect([result.dtype, result.shape, result.device]).toEqual(["float32", [2], "cpu"]);
    expect(result.isTemporary).toBe(true);
  });

  test("is a plain tensor once it is spread, compared or cloned", async () => {
    const result = await tensorOf("forward", floats(1, 2));
    expect({ ...result }).toEqual({ dtype: "float32", shape: [2], data: Float32Array.of(2, 3) });
    expect<unknown>(result).toEqual(floats(2, 3));
    expect(structuredClone({ ...(await tensorOf("forward", floats(1))) }).data).toEqual(Float32Array.of(2));
    expect((await tensorOf("bump", floats(1, 2))).item()).toBe(5);
  });

  test("goes to another session without a copy: a method that writes into its argument changes it", async () => {
    const given = await tensorOf("forward", floats(1, 2));
    await other.call("bump", [given]);
    expect(await given.read()).toEqual(Float32Array.of(3, 4));
  });

  test("of an exported program goes into the next call without a copy", async () => {
    const exported = await open({ path: program });
    const append = async (value: number, cache: Tensor) => {
      const row = tensor(Float32Array.of(value, value, value), [1, 3]);
      const [sums, grown] = (await exported.call("forward", [row, cache])) as [NativeTensor, NativeTensor];
      return { sums: [...(await sums.read())], grown };
    };
    const { grown: first } = await append(1, tensor(new Float32Array(6), [1, 2, 3]));
    // Writes into the cache where it is: the next step would not see it through a copy.
    await session.call("bump", [first]);
    const { sums, grown: second } = await append(5, first);
    expect(sums).toEqual([3, 3, 6, 15]);
    // JavaScript has read no cache.
    expect([first.isTemporary, second.isTemporary]).toEqual([true, true]);
  });

  test("has rows that stay on the device, and a list of rows is one tensor of an exported program", async () => {
    const exported = await open({ path: program });
    const append = async (values: readonly number[], caches: readonly Tensor[]) => {
      const rows = tensor(Float32Array.from(values.flatMap((value) => [value, value, value])), [values.length, 3]);
      const [sums, grown] = (await exported.call("forward", [rows, caches])) as [NativeTensor, NativeTensor];
      return { sums: [...(await sums.read())], caches: grown.unstack() };
    };
    const first = await append([1, 2], [tensor(new Float32Array(6), [2, 3]), tensor(new Float32Array(6), [2, 3])]);
    await session.call("bump", [first.caches[1] ?? null]);
    const { sums, caches } = await append([5, 6], first.caches.toReversed());
    expect(sums).toEqual([3, 3, 9, 15, 0, 0, 3, 18]);
    for (const row of [...first.caches, ...caches]) expect(row).toMatchObject({ isTemporary: true, device: "cpu" });
    expect(caches[0]?.data).toEqual(Float32Array.of(1, 1, 1, 1, 1, 1, 3, 3, 3, 5, 5, 5));
    const unequal = [tensor(new Float32Array(6), [2, 3]), tensor(new Float32Array(9), [3, 3])];
    expect(await failure(append([1, 2], unequal))).toBe(
      "tensor_invalid: forward, argument cache[1]: a list for a tensor needs equal shapes and dtypes, received float32(2, 3) and float32(3, 3)",
    );
    expect(await failure(exported.call("forward", [tensor(new Float32Array(6), [2, 3]), []]))).toBe(
      "tensor_invalid: forward, argument cache: a list for a tensor needs at least one tensor",
    );
    expect(await failure(append(Array(65).fill(1), Array(65).fill(unequal[0])))).toBe(
      "run_failed: dimension 0 of the tensor row must be at most 64, received 65",
    );
  });

  test("that code has read has rows with the changes", async () => {
    const result = await tensorOf("transposed", tensor(Float32Array.of(1, 2, 3, 4), [2, 2]));
    result.data.fill(7);
    expect<unknown>(result.unstack()).toEqual([floats(7, 7), floats(7, 7)]);
  });

  test("goes into lists of tensors, beside tensors of JavaScript", async () => {
    const given = await tensorOf("forward", floats(1, 2));
    expect(await other.call("stacked", [[given, floats(8, 9), given]])).toEqual(
      tensor(Float32Array.of(2, 3, 8, 9, 2, 3), [3, 2]),
    );
  });

  test("has its own memory, even if the method returns its argument, or two views of one tensor", async () => {
    const given = await tensorOf("forward", floats(1, 2));
    const same = await tensorOf("same", given);
    const halves = await session.call("halves", [given]);
    await session.call("bump", [given]);
    if (!Array.isArray(halves)) throw new Error("halves gave no list");
    await session.call("bump", [halves[0]]);
    expect([same.data, ...halves]).toEqual([Float32Array.of(2, 3), floats(3), floats(3)]);
  });

  test("has its elements in order, if the method returns a transposed view", async () => {
    const matrix = tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);
    expect<unknown>(await tensorOf("transposed", matrix)).toEqual(tensor(Float32Array.of(1, 4, 2, 5, 3, 6), [3, 2]));
  });

  test("that code has read and changed reaches later calls with the changes", async () => {
    const result = await tensorOf("forward", floats(1, 2));
    result.data.fill(7);
    expect(await session.call("forward", [result])).toEqual(floats(8, 8));
    expect(result.isTemporary).toBe(false);
  });

  test("outlives its session", async () => {
    const short = await open({ path });
    const result = await short.call("forward", [floats(1)]);
    await short.dispose();
    expect(await session.call("forward", [result as DeviceTensor])).toEqual(floats(3));
  });

  test("is freed by dispose, even while a call uses it; reading it then fails with the fix", async () => {
    using result = await tensorOf("forward", floats(1, 2));
    const used = session.call("forward", [result]);
    result.dispose();
    expect(await used).toEqual(floats(3, 4));
    const message =
      "tensor_invalid: a tensor float32(2) of a session was freed when its predict ended; call keep() on tensors that stay longer";
    expect(await failure(result.read())).toBe(message);
    expect(await failure(session.call("forward", [result]))).toBe(message);
  });
});

describe("predict", () => {
  async function opened(predict: Predict): Promise<Runner & AsyncDisposable> {
    const [runner] = await openRunners({
      weights: { model: path },
      operators: [],
      devices: ["cpu"],
      threads: 1,
      instances: 1,
      predict,
      inputs: { x: float32("n") },
      outputs: { y: float32("n") },
    });
    if (runner === undefined) throw new Error("no runner was opened");
    return Object.assign(runner, { [Symbol.asyncDispose]: () => runner.dispose() });
  }
  const call = async (method: string, batch: Parameters<Predict>[0], sessions: Parameters<Predict>[1], x = batch.x) =>
    (await sessions.model?.call(method, x ?? null)) as DeviceTensor;

  test("returns results of sessions, small and large, read and unread", async () => {
    for (const size of [2, 200_000]) {
      for (const isRead of [false, true]) {
        await using runner = await opened(async (batch, sessions) => {
          const y = await call("forward", batch, sessions);
          if (isRead) expect(y.data.length).toBe(size);
          return { y };
        });
        const [y] = await runner.run([[tensor(new Float32Array(size).fill(1), [size])]]);
        expect(y).toEqual(tensor(new Float32Array(size).fill(2), [1, size]));
      }
    }
  });

  test("fails with the reason if a result does not fit the declaration", async () => {
    await using runner = await opened(async (batch, sessions) => ({ y: await call("bump", batch, sessions) }));
    expect(await failure(runner.run([[floats(1)]]))).toBe(
      'run_failed: predict gave "y" as float32(); declared for 1 items: float32(1, n)',
    );
  });

  test("reads no elements of the results that it returns, gives in parts or wraps by mistake: they stay native", async () => {
    const results: NativeTensor[] = [];
    const kept = async (batch: Parameters<Predict>[0], sessions: Parameters<Predict>[1]) => {
      const y = (await call("forward", batch, sessions)).keep();
      if (y instanceof NativeTensor) results.push(y);
      return y;
    };
    await using whole = await opened(async (batch, sessions) => ({ y: await kept(batch, sessions) }));
    expect(await whole.run([[floats(1, 2)]])).toEqual([tensor(Float32Array.of(2, 3), [1, 2])]);
    await using inParts = await opened(async function* (batch, sessions) {
      const y = await kept(batch, sessions);
      yield { y };
      return { y };
    });
    expect(await inParts.run([[floats(1, 2)]])).toEqual([tensor(Float32Array.of(2, 3), [1, 2])]);
    await using wrong = await opened(async (batch, sessions) => {
      const inner: unknown = { inner: await kept(batch, sessions) };
      return { y: inner as Tensor };
    });
    expect(await failure(wrong.run([[floats(1)]]))).toContain('return a tensor of it, as its "inner"');
    expect(results.map(({ held }) => held !== undefined)).toEqual([true, true, true]);
  });

  test("frees its results when it ends, except results that it keeps or has read", async () => {
    const results: DeviceTensor[] = [];
    await using runner = await opened(async (batch, sessions) => {
      const [first, kept, read] = await Promise.all([1, 2, 3].map(() => call("forward", batch, sessions)));
      if (first === undefined || kept === undefined || read === undefined) throw new Error("not called");
      results.push(first, kept.keep(), read);
      expect(read.data[0]).toBe(2);
      return { y: tensor(Float32Array.of(0), [1, 1]) };
    });
    await runner.run([[floats(1)]]);
    const [first, kept, read] = results;
    expect(() => first?.data).toThrow("call keep() on tensors that stay longer");
    expect([kept?.data[0], read?.data[0]]).toEqual([2, 2]);
  });

  test("frees the memory of its results at its end, without a garbage collection", async () => {
    const [count, elements] = [50, 2 ** 20];
    const held: Tensor[] = [];
    let most = 0;
    await using runner = await opened(async (batch, { model }) => {
      for (let i = 0; i < count; i++) held.push(await (model as NonNullable<typeof model>).call("ones", elements));
      most = Math.max(most, ownBytes());
      return { y: batch.x as Tensor };
    });
    const before = ownBytes();
    for (let i = 0; i < 10; i++) await runner.run([[floats(1)]]);
    // Each batch makes 200 MB of results. Without freeing, ten batches would hold 2 GB.
    expect(most - before).toBeLessThan(3 * count * elements * 4);
  });
});

test("results without a batch are freed when the garbage collector finds them", async () => {
  const [count, elements] = [200, 2 ** 20];
  const before = ownBytes();
  for (let i = 0; i < count; i++) await session.call("ones", [elements]);
  await until(() => {
    Bun.gc(true);
    return ownBytes() - before < (count / 2) * elements * 4;
  });
});
