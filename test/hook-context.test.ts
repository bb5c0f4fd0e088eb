/**
 * The context of hooks: the state of `setup`, parameters of the operator, a signal, a log, the device. Also the hook
 * `teardown`.
 */
import { beforeAll, expect, test } from "bun:test";
import { defineModel, opened } from "../src/author/define.ts";
import { clientOf } from "./helpers/cli.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { numbers } from "./helpers/held-engine.ts";
import { hold } from "./helpers/hold.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";

/** A model whose output shows the context that each hook got. */
const text = modelText({
  name: '"context"',
  input: "z.object({ x: z.number(), wait: z.url().optional() })",
  output: "z.object({ seen: z.json() })",
  params: `z.object({
    factor: z.number().default(2),
    word: z.string().default("none"),
    mode: z.enum(["fast", "best"]).default("fast"),
  })`,
  assets: '["words.txt"]',
  setup: `async ({ asset, params }) => ({ words: (await asset("words.txt").text()).trim(), factor: params.factor })`,
  teardown: `({ words }) => console.error("teardown of", words)`,
  preprocess: `async ({ x, wait }, { state, params, log, signal }) => {
    log("preparing", x, state.words);
    if (wait) {
      signal.addEventListener("abort", () => console.error("aborted", signal.aborted));
      await fetch(wait, { signal });
    }
    return { x: tensor(Float32Array.of(x * state.factor), []), steps: tensor(BigInt64Array.of(BigInt(params.factor)), []) };
  }`,
  predict: `async ({ x, steps }, { model }, { state, params, device, log }) => {
    log("running", x.data.length, state.words);
    return { y: tensor(x.data.map((each) => each * params.factor), [x.data.length]), together: steps };
  }`,
  postprocess: `({ y, together }, { input, ...context }) => {
    const { state, params, device, log } = context;
    log({ input });
    return { seen: { y: y.item(), steps: together.item(), state, params, device } };
  }`,
  demo: `{
    output: z.json(),
    predict: async (inputs, { predict, state, params, device }) => ({
      outputs: await predict(inputs),
      demoOutputs: inputs.map(() => ({ state, params, device })),
    }),
  }`,
  batchSize: "4",
});

const dir = fixture(tempDir);
beforeAll(async () => {
  await Bun.write(dir.join("words.txt"), "alpha beta\n");
  await writeModel(dir, text);
});
const store = fixture(async () => (await storeWith(dir.path)).starting(["context", "--device", "cpu"]));

const seen = (factor: number) => ({
  state: { words: "alpha beta", factor },
  params: { factor, word: factor === 2 ? "none" : "3", mode: factor === 2 ? "fast" : "best" },
  device: "cpu",
});

test("hooks get the state of setup, and parameters with their defaults; teardown gets the state when the server stops", async () => {
  await using server = store.start();
  const client = await clientOf(server);
  const { outputs } = await client.predict([{ x: 3 }]);
  expect(outputs).toEqual([{ seen: { y: 12, steps: 2, ...seen(2) } }]);
  expect(await client.demos.predict([{ x: 1 }])).toMatchObject({ demo_outputs: [seen(2)] });
  server.kill("SIGTERM");
  expect(await server.line("teardown of")).toBe("teardown of alpha beta");
  expect(await server.exited).toBe(0);
});

test("--param sets parameters of all hooks", async () => {
  await using server = store.start(["--param", "factor=5", "--param", "word=3", "--param", "mode=best"]);
  const { outputs } = await (await clientOf(server)).predict([{ x: 3 }]);
  expect(outputs).toEqual([{ seen: { y: 75, steps: 5, ...seen(5) } }]);
});

test("log lines have the ids of the request and the prediction; the signal aborts when the prediction is canceled", async () => {
  await using gate = hold();
  await using server = store.start(["--log-format", "json"]);
  const client = await clientOf(server);
  const { prediction_id: id } = await client.predict([{ x: 1 }], { "X-Request-Id": "mine" });
  for (const logged of ["preparing 1 alpha beta", "{ input: { x: 1 } }"]) {
    const message = `prediction ${id}, input 0: ${logged}`;
    const line = JSON.parse(await server.line(message));
    expect(line).toMatchObject({ level: "info", message, prediction_id: id, request_id: "mine" });
  }
  expect(JSON.parse(await server.line("running"))).toMatchObject({ message: expect.stringContaining("alpha beta") });
  const waiting = await client.create([{ x: 1, wait: gate.url("a") }]);
  await gate.arrived("a");
  await client.cancel(waiting.prediction_id);
  expect(JSON.parse(await server.line("aborted"))).toMatchObject({ message: "aborted true" });
});

test.each([
  ["factor=many", "the parameter factor: Invalid input: expected number, received string"],
  ["mode=slow", 'the parameter mode: Invalid option: expected one of "fast"|"best"'],
  ["speed=1", "there is no parameter speed; the model has factor, word, mode"],
])("--param %s refuses to start", async (param, message) => {
  await using server = store.start(["--param", param]);
  expect(await server.line(message)).toContain(message);
  expect(await server.exited).not.toBe(0);
});

test("a parameter without a default is refused", async () => {
  const folder = await writeModel(dir, modelText({ params: "z.object({ key: z.string() })" }), "required");
  const { code, stderr } = await store.cliHere(["build", folder]);
  expect(code).toBe(1);
  expect(stderr).toContain("params.key: needs a value without an option; add .default(…)");
});

test("postprocess gets the device that the engine has told since preprocess", () => {
  const devices: string[] = [];
  const seen = (device: string) => void devices.push(device);
  const model = opened(
    defineModel({
      ...numbers,
      preprocess: ({ x }, { device }) => {
        seen(device);
        return numbers.preprocess({ x });
      },
      postprocess: (_, { device }) => {
        seen(device);
        return { y: 1 };
      },
    }),
  );
  const caller = { signal: new AbortController().signal };
  void model.preprocess({ x: 1 }, caller);
  model.context.device = "cuda:0";
  void model.postprocess({}, { input: { x: 1 }, caller });
  expect(devices).toEqual(["cpu", "cuda:0"]);
});
