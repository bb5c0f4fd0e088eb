/** Weights that were compiled for another processor are refused before any compiled code is loaded. */
import { describe, expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { WeightsFile } from "../../src/engine/program/weights-file.ts";
import { mediaTypes } from "../../src/package/store/manifest.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { cliHere } from "../helpers/command-here.ts";
import { type TempDir, tempDir } from "../helpers/fixture.ts";
import { withMetadata } from "../helpers/rewritten-package.ts";
import { fixtures } from "../helpers/weights.ts";

const isX86 = arch() === "x64";
const waysOut = "compile it on a processor like this one, or serve weights that are not compiled";

const compiled = (await fixtures()).get("aotinductor float32 one tuple");
const zip = await readFile(compiled.path);

describe("a model with a compiled package", () => {
  const model = `import { defineModel, float32, tensor, z } from "sconce";
export default defineModel({
  name: "compiled",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32(3, 4) }, outputs: { y: float32(3, 4), most: float32(3) } },
  weights: "weights.pt2",
  example: { x: 1 },
  preprocess: ({ x }) => ({ x: tensor(new Float32Array(12).fill(x), [3, 4]) }),
  postprocess: ({ y }) => ({ y: y.data[0] }),
});
`;
  const elsewhere = (): Buffer => withMetadata(zip, { AOTI_MACHINE: isX86 ? "aarch64" : "x86_64" });

  test("is packaged with the processor features that it needs", async () => {
    await using dir = await modelFolder(zip);
    expect((await run(dir, "build", dir.path)).code).toBe(0);
    const { config } = await new ModelStore(dir.join("store")).resolve("compiled");
    expect(config.cpuCapability).toBe(new WeightsFile(compiled.path).processor);
    if (isX86) expect(config.cpuCapability).toMatch(/^x86_64 .*\bfma\b/);
    expect((await run(dir, "predict", "compiled", "x=1")).code).toBe(0);
  });

  test("for another processor makes `build` and `serve` fail with one line", async () => {
    await using dir = await modelFolder(zip);
    await run(dir, "build", dir.path);
    const store = new ModelStore(dir.join("store"));
    const { config, bundle } = await store.resolve("compiled");
    await store.put({
      repository: "moved",
      config,
      layers: [
        { mediaType: mediaTypes.bundle, title: bundle.title, source: bundle.path },
        { mediaType: mediaTypes.weights, title: "weights.pt2", source: elsewhere() },
      ],
    });
    await writeFile(dir.join("weights.pt2"), elsewhere());
    for (const args of [
      ["build", dir.path],
      ["serve", "moved", "--port", "0"],
    ]) {
      const { code, stdout, stderr } = await run(dir, ...args);
      expect([code, stdout]).toEqual([1, ""]);
      const told = stderr.split("\n").filter((line) => line.includes("compiled for"));
      expect(told).toHaveLength(1);
      expect(told[0]).toEndWith(waysOut);
    }
  });

  async function modelFolder(weights: Buffer): Promise<TempDir> {
    const dir = await tempDir();
    await writeFile(dir.join("model.ts"), model);
    await writeFile(dir.join("weights.pt2"), weights);
    return dir;
  }

  function run(dir: TempDir, ...args: string[]) {
    return cliHere(args, { env: { SCONCE_HOME: dir.join("store") } });
  }
});
