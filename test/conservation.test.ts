/**
 * Random clients and random failures: every prediction ends correctly, and the server releases all memory that it has
 * charged.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { defineModel } from "../src/author/define.ts";
import { float32, tensor } from "../src/author/tensor.ts";
import { openLocalEngine } from "../src/engine/remote/local-engine.ts";
import type { Runner } from "../src/engine/runner.ts";
import { file, z } from "../src/index.ts";
import { Bodies } from "../src/pipeline/inputs/body.ts";
import { InputDecoder } from "../src/pipeline/inputs/input-decoder.ts";
import type { ListItem } from "../src/pipeline/item-list.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { MemoryStore } from "../src/predictions/memory-store.ts";
import { Predictions } from "../src/predictions/predictions.ts";
import { hasEnded, type PredictionRecord } from "../src/predictions/record.ts";
import { RunningBuild } from "../src/predictions/running-build.ts";
import { Metrics } from "../src/server/metrics/metrics.ts";
import { flowOf } from "./helpers/held-engine.ts";
import { nextTurn } from "./helpers/loop-turns.ts";
import { keepAll } from "./helpers/predictions.ts";
import { info } from "./helpers/remote.ts";
import { until } from "./helpers/running.ts";

const BAD = 13;
const ways = [
  "plain",
  "asynchronous",
  "preprocess throws",
  "preprocess rejects",
  "postprocess throws",
  "bad output",
] as const;

const model = defineModel({
  name: "any",
  input: z.object({ x: z.number(), way: z.enum(ways), file: file().optional() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32("n") }, outputs: { y: float32() } },
  weights: "none.pt",
  preprocess: async ({ x, way }) => {
    if (way === "preprocess throws") throw new Error(way);
    if (way !== "plain") await nextTurn();
    if (way === "preprocess rejects") throw new Error(way);
    return { x: tensor(new Float32Array(1 + (x % 2)).fill(x), [1 + (x % 2)]) };
  },
  postprocess: async ({ y }, { input: { way } }) => {
    if (way === "asynchronous") await nextTurn();
    if (way === "postprocess throws") throw new Error(way);
    return { y: way === "bad output" ? Number.NaN : (y.data[0] ?? 0) };
  },
});

/** A runner that doubles numbers; a batch that contains `BAD` fails. */
const runner: Runner = {
  async run(items) {
    const given = items.map(([x]) => Number(x?.data[0]));
    await nextTurn();
    if (given.includes(BAD)) throw new Error("bad");
    return [{ dtype: "float32", shape: [given.length], data: Float32Array.from(given, (x) => 2 * x) }];
  },
  settle() {},
  setThreads: async () => {},
  dispose: async () => {},
};

const input = fc.record({
  x: fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 20, max: 99 }) }, { weight: 1, arbitrary: fc.constant(BAD) }),
  way: fc.oneof({ weight: 3, arbitrary: fc.constant("plain" as const) }, fc.constantFrom(...ways)),
  file: fc.constantFrom(undefined, undefined, undefined, "data:text/plain,here", "/there", "/gone"),
});

const request = fc.record({
  inputs: fc.array(input, { minLength: 1, maxLength: 12 }),
  address: fc.constantFrom("a", "b"),
  waitMs: fc.constantFrom(0, 1, 10_000),
  timeoutMs: fc.constantFrom(undefined, undefined, 3),
  client: fc.constantFrom("stays", "stays", "leaves", "cancels"),
});

const setting = fc.record({
  maxBatchSize: fc.integer({ min: 1, max: 8 }),
  runners: fc.constantFrom([runner], [runner, runner]),
  maxReadyBytes: fc.constantFrom(16, 1e6),
  maxMemory: fc.constantFrom(20_000, Infinity),
});

test("all memory charges of predictions are released", async () => {
  using files = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) => new Response("there", { status: url.endsWith("there") ? 200 : 404 }),
  });
  const property = fc.asyncProperty(setting, fc.array(request, { maxLength: 40 }), async (settings, requests) => {
    const { maxBatchSize, runners, maxReadyBytes, maxMemory } = settings;
    const memory = new MemoryAccount({ maxBytes: maxMemory });
    const local = openLocalEngine<ListItem>({ ...model.tensors, runners, info, maxBatchSize, maxQueueDelayMs: 0 });
    using flow = flowOf(model, local.engine, { maxReadyBytes, maxFetches: 2, memory });
    const { pipeline } = flow;
    const store = new MemoryStore(keepAll, { memory });
    const bodies = new Bodies(new InputDecoder(model.input));
    const limits = {
      maxQueuedItems: 300,
      maxQueuedBytes: 1e6,
      timeoutMs: 60_000,
    };
    const predictions = new Predictions({
      ...{ owner: "0", store, memory, metrics: new Metrics() },
      build: new RunningBuild({ flow, pipeline, bodies, version: undefined, maxInputs: { prediction: 50, demo: 5 } }),
      limits: { ...limits, maxResultBytes: 1e6, maxLogBytes: 1000 },
    });
    const send = async ({ inputs, address, waitMs, timeoutMs, client: does }: (typeof requests)[number]) => {
      const told = inputs.map((each) => ({
        ...each,
        file: each.file?.startsWith("/") ? new URL(each.file, files.url).href : each.file,
      }));
      const body = JSON.stringify(told);
      const leaving = new AbortController();
      const client = {
        signal: leaving.signal,
        sender: { address, name: "" },
        idSuffix: "",
        share: 1,
        held() {},
      };
      const origin = { requestId: "r", traceId: undefined, spanId: undefined };
      if (does === "leaves") setTimeout(() => leaving.abort(), 2);
      const bytes = body.length;
      const created: PredictionRecord | undefined = await Promise.try(() =>
        predictions.create({
          kind: "prediction",
          body,
          bytes,
          charge: memory.add("bodies", bytes),
          timeoutMs,
          waitMs,
          client,
          origin,
        }),
      ).catch((error) => void expect(error.code).toBe("queue_full"));
      if (created === undefined) return;
      if (does === "cancels") await predictions.cancel("prediction", created.id);
      const stays = { ...client, signal: new AbortController().signal };
      const ended = await predictions.wait("prediction", created.id, { waitMs: 10_000, client: stays });
      // A store with little memory evicts results.
      if (ended === undefined && maxMemory < Infinity) return;
      if (ended === undefined || !hasEnded(ended)) throw new Error("it has not ended");
      const { outputs, partial_outputs } = JSON.parse(`{${ended.outcome.members}}`);
      if (ended.outcome.status === "success") expect(outputs).toHaveLength(inputs.length);
      for (const [i, output] of (outputs ?? partial_outputs ?? []).entries())
        if (output !== null) expect(output).toEqual({ y: 2 * (inputs[i]?.x ?? 0) });
    };
    await Promise.all(requests.map(send));
    // The work for clients that closed their connection ends after the last answer.
    await until(() => flow.credits.ready.bytes + memory.parts.files + memory.parts.tensors === 0);
    const { results, ...parts } = memory.parts;
    expect(parts).toEqual({ bodies: 0, files: 0, pictures: 0, tensors: 0, outputs: 0, answers: 0 });
    expect(results).toBe(store.retained.bytes);
    expect(predictions.live.unfinished).toEqual({ items: 0, bytes: 0, predictions: 0 });
    expect([flow.credits.ready.items, flow.credits.unsent, flow.credits.running]).toEqual([0, 0, 0]);
  });
  await fc.assert(property, { numRuns: 30 });
});
