/** Models whose tensors and batch size are not declared, but stated by the weights. */
import { expect, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "../src/cli/commands/build.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { openModel } from "../src/testing.ts";
import { commandHere } from "./helpers/command-here.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";

const weights = fileURLToPath(new URL("../examples/digits/digits.pt2", import.meta.url));

/** Writes a model.ts that uses the weights of the example digits. @param more further fields @returns its folder */
async function digits(more = "") {
  const folder = await tempDir();
  await copyFile(weights, folder.join("digits.pt2"));
  await Bun.write(
    folder.join("model.ts"),
    `import { argmax, defineModel, tensor, z } from "sconce";
export default defineModel({
  name: "plain-digits",
  input: z.object({ grey: z.number() }),
  output: z.object({ digit: z.int() }),
  weights: "digits.pt2",
  example: { grey: 0.5 },
  preprocess: ({ grey }) => ({ pixels: tensor(new Float32Array(400).fill(grey), [20, 20]) }),
  postprocess: ({ output0 }) => ({ digit: argmax(output0) }),
  ${more}
});`,
  );
  return folder;
}

test("an exported program states the tensors, and that batches are possible", async () => {
  await using folder = await digits();
  await using store = await storeWith(folder.path);
  const { config } = await new ModelStore(store.home).resolve("plain-digits");
  expect(config).toMatchObject({
    inputs: [{ name: "pixels", dtype: "float32", dims: [20, 20] }],
    outputs: [{ name: "output0", dtype: "float32", dims: [10] }],
    batchSize: 32,
  });
  await using server = await store.serve("plain-digits");
  const inputs = Array.from({ length: 5 }, (_, i) => ({ grey: i / 10 }));
  const { outputs } = await server.client.predict(inputs);
  expect(outputs).toHaveLength(5);
  expect((await server.client.json("/")) as object).toMatchObject({ batch_size: 32 });
}, 120_000);

test("a declared batch size takes precedence", async () => {
  await using folder = await digits("batchSize: 4,");
  await using store = await storeWith(folder.path);
  expect((await new ModelStore(store.home).resolve("plain-digits")).config.batchSize).toBe(4);
}, 120_000);

test("such a model can be opened in an author's test, too", async () => {
  await using folder = await digits();
  await using model = await openModel(folder.path);
  expect(Object.keys(await model.run(await model.preprocess({ grey: 0.1 })))).toEqual(["output0"]);
});

test.each([
  [{ tensors: undefined }, "tensors: is missing, and lab.pt does not state them; declare tensors"],
  [{ tensors: undefined, predict: "() => ({})" }, "tensors: is missing; the weights state their own tensors only"],
])("without tensors %p is refused with the fix", async (change, message) => {
  await using folder = await tempDir();
  const dir = await writeModel(folder, modelText(change));
  const failure = await failureOf(commandHere(build, [dir], { home: folder.join("home") }));
  expect(failure.message).toContain(message);
});
