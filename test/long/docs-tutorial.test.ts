/** Every line of docs/tutorial.md works if it is pasted, in order, into an empty folder. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { tempDir } from "../helpers/fixture.ts";
import { startReader } from "../helpers/reader.ts";
import { blocksOf } from "../helpers/readme.ts";

const root = join(import.meta.dir, "../..");

test("from an empty folder, the tutorial leads to predictions that match PyTorch", async () => {
  await using folder = await tempDir();
  await using reader = await startReader({ folder: folder.path, python: true });
  const blocks = blocksOf(await Bun.file(join(root, "docs/tutorial.md")).text());
  let servers = 0;
  for (const [i, { language, path, content }] of blocks.entries()) {
    if (path !== undefined) await Bun.write(folder.join(path), reader.addressed(content));
    if (language !== "sh") continue;
    if (content.startsWith("sconce serve")) {
      await reader.serve(content.trim());
      servers++;
      continue;
    }
    const output = await reader.run(content);
    const next = blocks[i + 1];
    if (next?.language === "json") expect(labelsOf(JSON.parse(output))).toEqual(labelsOf(JSON.parse(next.content)));
    if (next?.language === "text") expect(output).toContain(next.content.trim().split("…")[0] ?? "");
  }
  expect(servers).toBe(1);
}, 240_000);

/** Field names of a prediction, its status, and the label of each output. */
function labelsOf(prediction: { status: string; outputs: { moon: string }[] }): unknown {
  return {
    keys: Object.keys(prediction),
    status: prediction.status,
    moons: prediction.outputs.map(({ moon }) => moon),
  };
}
