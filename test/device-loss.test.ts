/**
 * After some errors, a GPU refuses all further work of its process, so the engine process ends and starts again. The
 * tests need no GPU: a model's `predict` throws the CUDA runtime's error at every call after a certain input.
 */
import { expect, test } from "bun:test";
import { tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import type { Item } from "../src/engine/engine.ts";
import { openLocalEngine } from "../src/engine/remote/local-engine.ts";
import { losesDevice } from "../src/machine/libtorch/device-loss.ts";
import { clientOf } from "./helpers/cli.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { DoublingRunner, info, one } from "./helpers/remote.ts";
import { inRole } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const dir = fixture(tempDir);
const store = fixture(async () => {
  const predict = `({ x }) => {
    globalThis.isLost ||= x.data.includes(-1);
    if (globalThis.isLost) throw new Error("CUDA error: device-side assert triggered");
    return { y: x };
  }`;
  const tensors = "{ inputs: { x: float32() }, outputs: { y: float32() } }";
  const preprocess = "({ x }) => ({ x: tensor(Float32Array.of(x), []) })";
  const model = modelText({ name: '"fragile"', tensors, preprocess, predict, batchSize: "8" });
  return storeWith("lab", await writeModel(dir, model, "fragile"));
});

test.each([
  ["CUDA error: an illegal memory access was encountered", true],
  ["predict failed: CUDA error: device-side assert triggered", true],
  ["CUDA error: invalid configuration argument", false],
  ["CUDA out of memory. Tried to allocate 2.00 GiB", false],
  ["predict failed: no such word: CUDA error: device-side assert triggered", false],
])("%s: the GPU is lost: %p", (message, isLost) => {
  expect(losesDevice(new SconceError("run_failed", message))).toBe(isLost);
});

test("an input that makes the GPU unusable fails alone; the other inputs of its batch and later ones get outputs", async () => {
  await using server = store.start(["fragile", "--max-queue-delay", "100"]);
  const client = await clientOf(server);
  const [before] = await inRole(server.pid, "engine");
  const outcomes = await Promise.all([1, 2, -1, 3, 4].map((x) => client.predict([{ x }])));
  expect(outcomes.map(({ status, outputs }) => [status, outputs?.[0]?.y])).toEqual([
    ["success", 1],
    ["success", 2],
    ["failed", undefined],
    ["success", 3],
    ["success", 4],
  ]);
  expect(await client.predict([{ x: 5 }])).toMatchObject({ status: "success", outputs: [{ y: 5 }] });
  const [after] = await inRole(server.pid, "engine");
  expect(after).not.toBe(before);
});

test("a command or test that uses the GPU itself gets the error, and does not end", async () => {
  const runner = new DoublingRunner();
  runner.run = () => Promise.reject(new Error("CUDA error: device-side assert triggered"));
  const local = openLocalEngine<Item>({ ...one, info, runners: [runner], maxBatchSize: 1, maxQueueDelayMs: 0 });
  const failed = new Promise<SconceError>((resolve) => {
    local.engine.listener = { dispatched() {}, finished() {}, failed: (_, error) => resolve(error) };
  });
  local.engine.submit({ lane: 1, index: 0 }, { x: tensor(Float32Array.of(1), []) });
  expect((await failed).message).toBe("CUDA error: device-side assert triggered");
  await local.close();
});
