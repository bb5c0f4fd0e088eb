/** Each opened model has its own parameters, state and variables, also if several come from one build. */
import { beforeAll, expect, test } from "bun:test";
import { openModel } from "../src/testing.ts";
import { clientOf } from "./helpers/cli.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";

/** A model whose outputs show the parameters and the state of each function, and a variable of its file. */
const text = `let last = "none";
${modelText({
  name: '"own"',
  output: "z.object({ y: z.number(), state: z.string(), variable: z.string() })",
  params: 'z.object({ factor: z.number().default(1), word: z.string().default("none") })',
  setup: "({ params }) => { last = params.word; return { word: params.word }; }",
  teardown: "({ word }) => console.error('teardown of', word)",
  preprocess:
    "({ x }, { params }) => ({ x: tensor(Float32Array.of(x * params.factor), []), steps: tensor(BigInt64Array.of(0n), []) })",
  postprocess: "({ y }, { state }) => ({ y: y.item(), state: state.word, variable: last })",
})}`;

const dir = fixture(tempDir);
beforeAll(async () => {
  await writeModel(dir, text);
});
const store = fixture(() => storeWith(dir.path));

test("a server gives two entries of one build their own parameters, state and variables, and ends both states", async () => {
  const file = dir.join("models.toml");
  await Bun.write(
    file,
    `[[model]]
model = "own"
name = "mild"
param = ["factor=2", "word=mild"]

[[model]]
model = "own"
name = "strict"
param = ["factor=9", "word=strict"]
`,
  );
  await using server = store.start(["--models", file, "--device", "cpu"]);
  const client = await clientOf(server);
  const outputOf = async (name: string) => (await client.predictAt(`/models/${name}`, [{ x: 1 }])).outputs;
  expect(await outputOf("mild")).toEqual([{ y: 5, state: "mild", variable: "mild" }]);
  expect(await outputOf("strict")).toEqual([{ y: 19, state: "strict", variable: "strict" }]);
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
  // The front process and the engine process of each model call `teardown`.
  const ended = server.lines.flatMap((line) => /teardown of (\w+)/.exec(line)?.[1] ?? []);
  expect(ended.toSorted()).toEqual(["mild", "mild", "strict", "strict"]);
});

test("models that openModel opens at once or one after the other have their own parameters, state and variables", async () => {
  await using first = await openModel(dir.path, { params: { factor: 3, word: "first" } });
  await using second = await openModel(dir.path);
  expect(await first.predict([{ x: 1 }])).toEqual([{ y: 7, state: "first", variable: "first" }]);
  expect(await second.predict([{ x: 1 }])).toEqual([{ y: 3, state: "none", variable: "none" }]);
});

test.each([
  [{ facter: 2 }, "no parameter facter"],
  [{ factor: "2" }, "the parameter factor: "],
])("openModel refuses the parameters %p", async (params, part) => {
  expect(await failureOf(openModel(dir.path, { params }))).toMatchObject({
    code: "usage",
    message: expect.stringContaining(part),
  });
});

test("openModel refuses parameters of a model that declares none", async () => {
  const opening = openModel(modelFolder("lab"), { params: { factor: 2 } });
  await expect(opening).rejects.toThrow("there is no parameter factor; the model declares no params");
});
