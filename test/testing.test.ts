/** Tests of a model without a server (sconce/testing), as model authors write them. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { init } from "../src/cli/commands/init.ts";
import { tensor } from "../src/index.ts";
import { openModel } from "../src/testing.ts";
import { commandHere } from "./helpers/command-here.ts";
import { tempDir } from "./helpers/fixture.ts";
import { blocksOf } from "./helpers/readme.ts";
import { modelFolder } from "./helpers/server.ts";

const digits = fileURLToPath(new URL("../examples/digits", import.meta.url));

test("a model runs from its folder: a path in a file field, outputs as JSON", async () => {
  await using model = await openModel(digits);
  const [three, seven] = await model.predict<{ digit: number }>([
    { image: "samples/3.png" },
    { image: "samples/7.png" },
  ]);
  expect([three?.digit, seven?.digit]).toEqual([3, 7]);
});

test("each hook of a model can run alone", async () => {
  await using model = await openModel(modelFolder("lab"));
  const tensors = await model.preprocess({ x: 2 });
  expect(tensors.x?.data).toEqual(Float32Array.of(2));
  const rows = await model.run({ ...tensors, x: tensor(Float32Array.of(5), []) });
  expect(rows.y?.data).toEqual(Float32Array.of(11));
});

test("errors have the text that a server writes only to its log", async () => {
  await using model = await openModel(modelFolder("lab"));
  await expect(model.predict([{ x: 1, fail: "preprocess" }])).rejects.toThrow("no such x");
  await expect(model.predict([{ x: 1, fail: "input" }])).rejects.toThrow("x is not wanted");
  await expect(model.predict([{ y: 1 }])).rejects.toThrow("input.x");
});

test("inputs share batches as on a server", async () => {
  await using model = await openModel(modelFolder("lab"));
  const outputs = await model.predict<{ together: number }>(Array.from({ length: 4 }, (_, x) => ({ x })));
  expect(Math.max(...outputs.map(({ together }) => together))).toBeGreaterThan(1);
});

test("a folder without a model is refused by name", async () => {
  await using folder = await tempDir();
  await expect(openModel(folder.path)).rejects.toThrow("model.ts");
});

test("the test in docs/declare.md passes in a folder that sconce init has made", async () => {
  await using folder = await tempDir();
  await commandHere(init, [folder.join("colours")], { home: folder.path });
  const page = await Bun.file(join(import.meta.dir, "../docs/declare.md")).text();
  const block = blocksOf(page).find(({ path }) => path === "model.test.ts");
  await Bun.write(folder.join("colours/model.test.ts"), block?.content ?? "");
  const { exitCode, stderr } = await Bun.$`${process.execPath} test`.cwd(folder.join("colours")).nothrow().quiet();
  expect({ exitCode, stderr: stderr.toString() }).toEqual({ exitCode: 0, stderr: expect.stringContaining("1 pass") });
});
