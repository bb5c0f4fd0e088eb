/** Pictures wait for their turns and for memory, and the event loop turns while many pictures are ready. */

import { expect, spyOn, test } from "bun:test";
import { availableParallelism } from "node:os";
import { decodings, STUCK_MS } from "../src/author/decoding-gate.ts";
import { defineModel, opened } from "../src/author/define.ts";
import { Image } from "../src/author/media.ts";
import { float32, tensor } from "../src/author/tensor.ts";
import { image, z } from "../src/index.ts";
import { AddressGuard } from "../src/machine/network/address-guard.ts";
import { Fetcher } from "../src/pipeline/fetcher.ts";
import { ItemFlow } from "../src/pipeline/item-flow.ts";
import { ItemPipeline } from "../src/pipeline/item-pipeline.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { predictAll } from "../src/pipeline/predict-all.ts";
import { runDemo } from "../src/pipeline/run-demo.ts";
import { InstantEngine } from "./helpers/held-engine.ts";
import { loopTurns } from "./helpers/loop-turns.ts";
import { until } from "./helpers/running.ts";

const COUNT = 24;
const facts = {
  name: "pictures",
  input: z.object({ image: image() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "none.pt",
  postprocess: () => ({ y: 1 }),
};

/** Inputs that each have the same grey picture. */
async function greyInputs(count: number): Promise<{ image: Image }[]> {
  const pixels = { data: new Uint8Array(4 * 4 * 3).fill(200), width: 4, height: 4, channels: 3 } as const;
  const url = (await Image.fromPixels(pixels)).toDataUri();
  return Array.from({ length: count }, () => ({ image: new Image({ url }) }));
}

/** Blocks the thread for longer than the limit of one turn. */
function busy(): void {
  const end = performance.now() + 3;
  while (performance.now() < end);
}

test("a demo may decode pictures after their inputs have run, however many pictures wait", async () => {
  // Half as many pictures are in progress at once.
  const count = 16 * availableParallelism();
  const model = defineModel({
    ...facts,
    preprocess: () => ({ x: tensor(Float32Array.of(1), []) }),
    demo: {
      output: z.object({ grey: z.int() }),
      async predict(inputs, { predict }) {
        const outputs = await predict(inputs);
        const decoded = await Promise.all(inputs.map(({ image }) => image.pixels()));
        return { outputs, demoOutputs: decoded.map(({ data }) => ({ grey: data[0] ?? 0 })) };
      },
    },
  });
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const pipeline = new ItemPipeline(opened(model), fetcher);
  const flow = new ItemFlow(new InstantEngine(), pipeline);
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
      busy();
      return { x: tensor(Float32Array.of(data[0] ?? 0), []) };
    },
  });
  const model = opened(declared);
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const flow = new ItemFlow(new InstantEngine(), new ItemPipeline(model, fetcher));
  const run = spyOn(decodings, "run");
  try {
    await predictAll(flow, inputs, { signal: new AbortController().signal });
    expect(new Set(seen).size).toBe(COUNT);
    expect(run.mock.calls.map(([owner]) => owner)).toEqual(Array(COUNT).fill(model));
  } finally {
    run.mockRestore();
  }
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
    return { x: tensor(Float32Array.of(data[0] ?? 0), []) };
  };
  const fetcher = new Fetcher({ guard: new AddressGuard() });
  const stages: string[] = [];
  const limits = { maxReadyBytes: 2 ** 20, maxFetches: 1, memory: account };
  const observer = { took: (stage: string) => void stages.push(stage) };
  const pipeline = new ItemPipeline(opened(defineModel({ ...facts, preprocess })), fetcher);
  const flow = new ItemFlow(new InstantEngine(), pipeline, { ...limits, observer });
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
      fetcher[Symbol.dispose]();
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
  const clock = spyOn(performance, "now").mockImplementation(() => now() + STUCK_MS);
  try {
    expect(decodings.stuckForMs).toBeGreaterThanOrEqual(STUCK_MS);
    resolve();
    await decoding;
    expect(decodings.stuckForMs).toBe(0);
  } finally {
    clock.mockRestore();
  }
});
