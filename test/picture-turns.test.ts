/** Pictures wait for their turns and for memory, and the event loop turns while many pictures are ready. */

import { expect, spyOn, test } from "bun:test";
import { availableParallelism } from "node:os";
import { decodings, STUCK_MS } from "../src/author/decoding-gate.ts";
import { defineModel } from "../src/author/define.ts";
import { Image } from "../src/author/media.ts";
import { image, z } from "../src/index.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { predictAll } from "../src/pipeline/predict-all.ts";
import { runDemo } from "../src/pipeline/run-demo.ts";
import { flowOf, InstantEngine, numbers } from "./helpers/held-engine.ts";
import { busy, loopTurns } from "./helpers/loop-turns.ts";
import { until } from "./helpers/running.ts";

const COUNT = 24;
const facts = { ...numbers, input: z.object({ image: image() }) };

/** Inputs that each have the same grey picture. */
async function greyInputs(count: number): Promise<{ image: Image }[]> {
  const pixels = { data: new Uint8Array(4 * 4 * 3).fill(200), width: 4, height: 4, channels: 3 } as const;
  const url = (await Image.fromPixels(pixels)).toDataUri();
  return Array.from({ length: count }, () => ({ image: new Image({ url }) }));
}

test("a demo may decode pictures after their inputs have run, however many pictures wait", async () => {
  // Half as many pictures are in progress at once.
  const count = 16 * availableParallelism();
  const model = defineModel({
    ...facts,
    preprocess: () => numbers.preprocess({ x: 1 }),
    demo: {
      output: z.object({ grey: z.int() }),
      async predict(inputs, { predict }) {
        const outputs = await predict(inputs);
        const decoded = await Promise.all(inputs.map(({ image }) => image.pixels()));
        return { outputs, demoOutputs: decoded.map(({ data }) => ({ grey: data[0] ?? 0 })) };
      },
    },
  });
  using flow = flowOf(model);
  const { pipeline } = flow;
  const { signal } = new AbortController();
  const inputs = await greyInputs(count);
  const { demoOutputs } = await runDemo(inputs, { flow, pipeline, signal, take() {}, write: () => true });
  expect(demoOutputs).toEqual(Array(count).fill('{"grey":200}'));
});

test("slow code after each picture of a prediction runs in a turn of the event loop for itself", async () => {
  const inputs = await greyInputs(COUNT);
  using turns = loopTurns();
  const seen: number[] = [];
  const declared = defineModel({
    ...facts,
    async preprocess({ image }) {
      const { data } = await image.pixels();
      seen.push(turns.count);
      // Longer than the limit of one turn.
      busy(3);
      return numbers.preprocess({ x: data[0] ?? 0 });
    },
  });
  using flow = flowOf(declared);
  using run = spyOn(decodings, "run");
  await predictAll(flow, inputs, { signal: new AbortController().signal });
  expect(new Set(seen).size).toBe(COUNT);
  // The owner of each decoding is the model.
  const owners = run.mock.calls.map(([owner]) => owner);
  expect(owners).toEqual(Array(COUNT).fill(owners[0]));
  expect(owners[0]).toMatchObject({ name: declared.name });
});

/** A model that decodes one picture, in an account whose memory another picture has taken. */
async function crowded() {
  const pixels = { data: new Uint8Array(100 * 100 * 3), width: 100, height: 100, channels: 3 } as const;
  const url = (await Image.fromPixels(pixels)).toDataUri();
  const account = new MemoryAccount({ maxBytes: 1_000_000 });
  const restore = decodings.useBudget(account.pictures);
  const decoding = Promise.withResolvers<void>();
  const other = decodings.run(account, 900_000, () => decoding.promise);
  const preprocess = async ({ image: picture }: { image: Image }) => {
    const { data } = await picture.pixels();
    return numbers.preprocess({ x: data[0] ?? 0 });
  };
  const stages: string[] = [];
  const limits = { maxReadyBytes: 2 ** 20, maxFetches: 1, memory: account };
  const observer = { took: (stage: string) => void stages.push(stage) };
  const flow = flowOf(defineModel({ ...facts, preprocess }), new InstantEngine(), { ...limits, observer });
  return {
    account,
    stages,
    predict: (signal: AbortSignal) => predictAll(flow, [{ image: new Image({ url }) }], { signal }),
    async release() {
      decoding.resolve();
      await other;
    },
    [Symbol.dispose]() {
      restore();
      flow[Symbol.dispose]();
    },
  };
}

test("pictures are charged while they are decoded; a picture that waits for memory leaves the queue when its prediction ends", async () => {
  using crowd = await crowded();
  expect(crowd.account.parts.pictures).toBe(900_000);
  const ended = new AbortController();
  const predicting = crowd.predict(ended.signal);
  await until(() => decodings.load.waiting === 1);
  ended.abort();
  await expect(predicting).rejects.toThrow();
  expect(decodings.load.waiting).toBe(0);
  await crowd.release();
  expect(crowd.account.parts.pictures).toBe(0);
});

test("decoding counts as stuck after half a minute without progress", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const decoding = decodings.run({}, 1, () => promise);
  const now = performance.now.bind(performance);
  using _clock = spyOn(performance, "now").mockImplementation(() => now() + STUCK_MS);
  expect(decodings.stuckForMs).toBeGreaterThanOrEqual(STUCK_MS);
  resolve();
  await decoding;
  expect(decodings.stuckForMs).toBe(0);
});
