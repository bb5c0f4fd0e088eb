/** Compiled weights with a maximum batch size: `serve` refuses larger batches. */
import { expect, test } from "bun:test";
import { copyFile, readFile } from "node:fs/promises";
import { openSession } from "../src/engine/native/binding.ts";
import { failure } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { withSource } from "./helpers/rewritten-package.ts";
import { storeWith } from "./helpers/server.ts";
import { type Fixture, fixtures } from "./helpers/weights.ts";

let compiled: Fixture;

const text = (batchSize: number) =>
  modelText({
    tensors: "{ inputs: { x: float32(3, 4) }, outputs: { y: float32(3, 4), most: float32(3) } }",
    weights: '"compiled.pt2"',
    batchSize: String(batchSize),
    preprocess: "({ x }) => ({ x: tensor(new Float32Array(12).fill(x), [3, 4]) })",
    postprocess: "({ y }) => ({ y: y.data[0] })",
  });

const dir = fixture(tempDir);
const store = fixture(async () => {
  compiled = (await fixtures()).get("aotinductor float32 one tuple");
  const folder = await writeModel(dir, text(4), "right");
  await copyFile(compiled.path, `${folder}/compiled.pt2`);
  return storeWith(folder);
}, 600_000);

const refused = (asked: number) =>
  `a batch size of ${asked} was asked for, the weights take at most 4096: set batchSize or --batch-size to 4096 or less, or export them for larger batches, with an example of ${asked} rows`;

test("a batch size above the limit of the compiled weights is refused, whether the operator or the author set it", async () => {
  expect(await failure(store.serve("small", { batchSize: 4097 }))).toBe(`weights_invalid: ${refused(4097)}`);
  const folder = await writeModel(dir, text(65_536), "wrong");
  await copyFile(compiled.path, `${folder}/compiled.pt2`);
  const stderr = expect.stringContaining(`sconce: ${refused(65_536)}. In Python: program = torch.export.export(`);
  expect(await store.cliHere(["build", folder])).toMatchObject({ code: 1, stderr });
});

test("the largest batch of compiled weights is served, even if they allow only one size", async () => {
  await using server = await store.serve("small", { batchSize: 4096 });
  expect(await (await fetch(server.url)).json()).toMatchObject({ batch_size: 4096 });
  const fixed = withSource(await readFile(compiled.path), "unmatched dim value at 1, ", "unmatched dim value at 0, ");
  await Bun.write(dir.join("fixed.pt2"), fixed);
  const { inputs, outputs } = compiled;
  const session = await openSession({ path: dir.join("fixed.pt2"), device: "cpu", threads: 1, inputs, outputs });
  expect(session.mostRows).toBe(3);
  await session.dispose();
});
