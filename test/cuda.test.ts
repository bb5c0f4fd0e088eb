/**
 * A GPU gives the same outputs as the CPU, also for overlapping batches. Skipped without a GPU.
 * test/long/fake-cuda.test.ts runs these tests on simulated GPUs: SCONCE_TEST_CUDA has the path of their library.
 */
import { dlopen } from "bun:ffi";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { DType, Tensor, TensorSpec } from "../src/author/tensor.ts";
import {
  cudaDeviceCount,
  loadOperators,
  type NativeSession,
  openSession,
  type SessionOptions,
} from "../src/engine/native/binding.ts";
import { NativeTensor } from "../src/engine/native/native-tensor.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import { WeightsFile } from "../src/engine/program/weights-file.ts";
import { failure } from "./helpers/failure.ts";
import { fixture } from "./helpers/fixture.ts";
import { closeWithin, elementsIn, filled, itemsOf } from "./helpers/tensors.ts";
import { fixtures } from "./helpers/weights.ts";
import references from "./models/dtypes.json" with { type: "json" };

const fake = process.env.SCONCE_TEST_CUDA;
if (fake !== undefined) await loadOperators(fake);
const gpus = cudaDeviceCount();

// A GPU sums in another order, and its convolutions may round their factors to 10 bits (TF32).
const expectClose = closeWithin(2e-3);
const float32 = (...dims: TensorSpec["dims"]): TensorSpec => ({ dtype: "float32", dims });
const item = (value: number): Tensor[] => [filled(value, 4)];
const pair = (value: number): Tensor[][] => [item(value), item(-value)];
const twice = (value: number) => Float32Array.from({ length: 8 }, (_, i) => 2 * (i < 4 ? value : -value));
const values = Array.from({ length: 12 }, (_, i) => i + 1);

const where = fake === undefined ? "a GPU" : "a device made of memory";
describe.skipIf(gpus === 0)(gpus === 0 ? "on a GPU, of which there is none here" : `on ${where}`, () => {
  const weights = fixture(fixtures, 600_000);
  const open: NativeSession[] = [];

  afterAll(() => Promise.all(open.map((session) => session.dispose())));

  async function session(path: string, options: Partial<SessionOptions> = {}): Promise<NativeSession> {
    const x = float32(4);
    const opened = await openSession({
      path,
      device: "cuda:0",
      threads: 1,
      inputs: { x },
      outputs: { y: x },
      ...options,
    });
    open.push(opened);
    return opened;
  }

  describe("outputs equal the CPU's", () => {
    test.each(["network", "torchscript float32 several dict", "torchscript int64 one tuple"])("by %s", async (name) => {
      const { path, inputs, outputs, items, expected } = weights.get(name);
      const opened = await session(path, { inputs, outputs });
      expectClose(await opened.run(items), expected);
      expect(await opened.run(items.slice(0, 1))).toHaveLength(expected.length);
    });

    test("by the digits example", async () => {
      const path = join(import.meta.dir, "../examples/digits/digits.pt2");
      const inputs = { pixels: float32(20, 20) };
      const outputs = { scores: float32(10) };
      const digits = Array.from({ length: 16 }, (_, i): Tensor[] => [
        {
          dtype: "float32",
          shape: [20, 20],
          data: Float32Array.from({ length: 400 }, (_, at) => ((at * i) % 17) / 17),
        },
      ]);
      const onCpu = await session(path, { inputs, outputs, device: "cpu" });
      const onGpu = await session(path, { inputs, outputs });
      expectClose(await onGpu.run(digits), await onCpu.run(digits));
    });

    test.each(Object.keys(references))("for %s, with equal bits", async (name) => {
      const dtype = name as DType;
      const spec: TensorSpec = { dtype, dims: [6] };
      const { input, outputs } = Reflect.get(references, name) as { input: string; outputs: string[] };
      const opened = await session(join(import.meta.dir, "models/dtypes.pt"), {
        inputs: { x: spec },
        outputs: { flipped: spec, larger: spec, twice: spec },
      });
      const given = await opened.run(itemsOf([{ dtype, shape: [2, 6], data: elementsIn(dtype, input) }]));
      expect(given.map(({ data }) => data)).toEqual(outputs.map((text) => elementsIn(dtype, text)));
    });

    test("in a method call", async () => {
      const opened = await openSession({ path: weights.path("count.pt"), device: "cuda:0", threads: 1 });
      open.push(opened);
      const x: Tensor = { dtype: "float32", shape: [2], data: Float32Array.of(1, 2) };
      expect(await opened.call("forward", [x, 3])).toEqual({ ...x, data: Float32Array.of(3, 6) });
    });
  });

  describe("results of method calls", () => {
    const x = (value: number): Tensor => ({ dtype: "float32", shape: [2], data: Float32Array.of(value, -value) });
    const devices = ["cuda:0", "cuda:0", gpus > 1 ? "cuda:1" : "cuda:0", "cpu"];
    let sessions: NativeSession[];

    beforeAll(async () => {
      const path = weights.path("count.pt");
      sessions = await Promise.all(devices.map((device) => openSession({ path, device, threads: 1 })));
      open.push(...sessions);
    });

    async function tripled(session: NativeSession | undefined, given: Tensor): Promise<NativeTensor> {
      const result = await session?.call("forward", [given, 3]);
      if (!(result instanceof NativeTensor)) throw new Error("forward gave no tensor");
      return result;
    }

    test("stay on the device of their session, and can be passed to other sessions and devices", async () => {
      let given: Tensor = x(1);
      for (const [i, session] of sessions.entries()) {
        const result = await tripled(session, given);
        expect(result.device).toBe(devices[i] ?? "");
        given = result;
      }
      expect(await (given as NativeTensor).read()).toEqual(Float32Array.of(81, -81));
    });

    test("have elements on the CPU when code reads them, at once or later", async () => {
      const [first, second] = [await tripled(sessions[0], x(1)), await tripled(sessions[0], x(2))];
      expect(first.data).toEqual(Float32Array.of(3, -3));
      expect(await Promise.all([second.read(), second.read()])).toEqual([second.data, Float32Array.of(6, -6)]);
      expect([first.device, second.device]).toEqual(["cpu", "cpu"]);
    });

    test("may be freed while another session reads them", async () => {
      const made = values.map(async (value) => {
        const result = await tripled(sessions[0], x(value));
        const next = tripled(sessions[1], result);
        result.dispose();
        return (await next).data[0];
      });
      expect(await Promise.all(made)).toEqual(values.map((value) => 9 * value));
    });
  });

  describe("of concurrent batches", () => {
    test("are separate, wherever the module keeps them", async () => {
      const opened = await session(weights.path("deep.pt"));
      const given = await Promise.all(values.map((value) => opened.run([item(value), item(2 * value)])));
      for (const [i, value] of values.entries()) {
        const first = [8 * value + 1, 8 * value + 1, 8 * value + 1, 8 * value + 1];
        expect(given[i]?.[0]?.data).toEqual(Float32Array.of(...first, ...first.map((each) => 2 * each - 1)));
      }
    });

    test("are separate if the module returns a tensor that the next batch overwrites", async () => {
      const opened = await session(weights.path("keeps.pt"));
      const given = await Promise.all(values.map((value) => opened.run(pair(value))));
      for (const [i, value] of values.entries()) expect(given[i]?.[0]?.data).toEqual(twice(value));
    });

    test("are right if the module keeps an input after its batch", async () => {
      const opened = await session(weights.path("holds.pt"));
      const given = await Promise.all(values.map((value) => opened.run(pair(value))));
      for (const [i] of values.entries()) expect(given[i]?.[0]?.data).toEqual(twice(i));
    });

    test("are complete if they are large", async () => {
      const opened = await session(weights.path("large.pt"), {
        inputs: { x: float32() },
        outputs: { y: float32(100_000) },
      });
      const given = await Promise.all(values.map((value) => opened.run([[filled(value)], [filled(-value)]])));
      for (const [i, value] of values.entries()) {
        const data = given[i]?.[0]?.data;
        expect([data?.[0], data?.[99_999], data?.[100_000]]).toEqual([value, value + 99_999, -value]);
      }
    });

    test.skipIf(fake === undefined)("copies of one batch overlap with the forward pass of another", async () => {
      const { symbols, close } = dlopen(fake ?? "", { fake_cuda_most_at_work: { returns: "int" } });
      try {
        const opened = await session(weights.path("deep.pt"));
        await opened.run(pair(1));
        symbols.fake_cuda_most_at_work();
        for (const value of values) await opened.run(pair(value));
        expect(symbols.fake_cuda_most_at_work()).toBe(1);
        await Promise.all(values.map((value) => opened.run(pair(value))));
        expect(symbols.fake_cuda_most_at_work()).toBeGreaterThan(1);
      } finally {
        close();
      }
    });
  });

  test("sessions with shared weights run in parallel", async () => {
    const first = await session(weights.path("deep.pt"), { instances: 2 });
    const second = await session(weights.path("deep.pt"), { share: first });
    const runs = values.map((value) => (value % 2 === 0 ? first : second).run([item(value)]));
    for (const [i, outputs] of (await Promise.all(runs)).entries()) expect(outputs[0]?.data[0]).toBe(8 * (i + 1) + 1);
  });

  test.skipIf(gpus < 2)("runners on two GPUs give equal outputs", async () => {
    const x = float32(4);
    const runners = await openRunners({
      weights: { model: weights.path("deep.pt") },
      operators: [],
      predict: undefined,
      inputs: { x },
      outputs: { y: x },
      devices: ["cuda:0", "cuda:1"],
      threads: 1,
      instances: 2,
    });
    const given = await Promise.all(runners.flatMap((runner) => values.map((value) => runner.run([item(value)]))));
    for (const [i, outputs] of given.entries()) expect(outputs[0]?.data[0]).toBe(8 * ((i % values.length) + 1) + 1);
    await Promise.all(runners.map((runner) => runner.dispose()));
  });

  describe("only one batch fails", () => {
    test("if the device has too little memory", async () => {
      const opened = await session(weights.path("hungry.pt"));
      const [before, failed, after] = [1, 2000, 3].map((value) => opened.run(pair(value)));
      const message = failure(failed ?? Promise.resolve());
      expect((await before)?.[0]?.data).toEqual(twice(1));
      expect(await message).toStartWith("out_of_memory: CUDA out of memory.");
      expect((await after)?.[0]?.data).toEqual(twice(3));
    });

    test("if its module raises", async () => {
      const opened = await session(weights.path("raises.pt"));
      const [failed, after] = [opened.run([item(1)]), opened.run([item(-1)])];
      expect(await failure(failed)).toBe("run_failed: this item is not wanted");
      expect((await after)[0]?.data).toEqual(Float32Array.of(-1, -1, -1, -1));
    });

    // After an illegal memory access, a real GPU refuses all further work of the process, so only simulated GPUs run
    // this test.
    test.skipIf(fake === undefined)("if the failure shows only while waiting for the outputs", async () => {
      const opened = await session(weights.path("keeps.pt"));
      const [before, failed, after] = [1, -333, 3].map((value) => opened.run(pair(value)));
      const message = failure(failed ?? Promise.resolve());
      expect((await before)?.[0]?.data).toEqual(twice(1));
      expect(await message).toBe("run_failed: CUDA error: an illegal memory access was encountered");
      expect((await after)?.[0]?.data).toEqual(twice(3));
    });
  });

  test("a disposed session finishes started batches, and refuses the others", async () => {
    const opened = await session(weights.path("deep.pt"));
    await opened.run([item(1)]);
    const ends = values.map((value) =>
      opened.run([item(value)]).then(
        () => "ran",
        (error) => error.code,
      ),
    );
    await opened.dispose();
    const told = await Promise.all(ends);
    expect(told).toEqual(told.toSorted()); // The first calls ran, and the others were refused: "ran" sorts before "session_closed".
    expect(new Set(told).difference(new Set(["ran", "session_closed"])).size).toBe(0);
  });

  test("a package compiled for the CPU is refused in one line", async () => {
    const { path, inputs, outputs } = weights.get("aotinductor float32 one tuple");
    expect(await failure(session(path, { inputs, outputs }))).toMatch(
      /^weights_invalid: .*the package was compiled for cpu, the device is cuda/,
    );
  });

  test.skipIf(fake === undefined)("tied weights of a program have the memory of one", async () => {
    const { symbols, close } = dlopen(fake ?? "", { fake_cuda_blocks: { returns: "int" } });
    try {
      const path = join(weights.path("programs"), "steps.pt2");
      const records = new WeightsFile(path).program()?.weights.map(({ record }) => record) ?? [];
      const before = symbols.fake_cuda_blocks();
      open.push(await openSession({ path, device: "cuda:0", threads: 1 }));
      // The forward pass does not use one weight, the counter of the batch norm.
      expect([records.length, new Set(records).size, symbols.fake_cuda_blocks() - before]).toEqual([12, 11, 10]);
    } finally {
      close();
    }
  });
});
