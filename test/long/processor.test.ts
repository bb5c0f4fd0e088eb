/** Weights that were compiled for another processor are refused before any compiled code is loaded. */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { openSession } from "../../src/engine/native/binding.ts";
import { WeightsFile } from "../../src/engine/program/weights-file.ts";
import { mediaTypes } from "../../src/package/store/manifest.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { cli } from "../helpers/cli.ts";
import { failure } from "../helpers/failure.ts";
import { withMetadata } from "../helpers/rewritten-package.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";
import { type Fixture, fixtures } from "../helpers/weights.ts";

/**
 * Instruction sets for which inductor generates code: its name in a package, its flag in /proc/cpuinfo, and its name
 * in messages.
 */
const vectorIsas = [
  { isa: "AMX_TILE", flag: "amx_tile", told: "amx_bf16, amx_int8, amx_tile" },
  { isa: "AVX512_VNNI", flag: "avx512_vnni", told: "avx512_vnni" },
  { isa: "AVX512", flag: "avx512f", told: "avx512bw, avx512dq, avx512f, avx512vl" },
];
const isX86 = arch() === "x64";
const cpuinfo = "/proc/cpuinfo";
const flags = existsSync(cpuinfo)
  ? (/^flags\s*:(.*)$/m.exec(readFileSync(cpuinfo, "utf8"))?.[1]?.split(" ") ?? [])
  : [];
const lacking = flags.length === 0 ? undefined : vectorIsas.find(({ flag }) => !flags.includes(flag));
const waysOut = "compile it on a processor like this one, or serve weights that are not compiled";

let compiled: Fixture;
let zip: Buffer;
let script: string;
beforeAll(async () => {
  const made = await fixtures();
  compiled = made.get("aotinductor float32 one tuple");
  script = made.path("network.pt");
  zip = await readFile(compiled.path);
}, 600_000);

describe("a compiled package", () => {
  test.skipIf(!isX86)("states the processor and features that it was compiled for", () => {
    const [machine, ...features] = new WeightsFile(compiled.path).processor?.split(" ") ?? [];
    expect(machine).toBe("x86_64");
    expect(features).toContain("fma");
  });

  test.skipIf(lacking === undefined)("with vector instructions that this processor lacks is refused", async () => {
    const { isa = "", told = "" } = lacking ?? {};
    expect(await refusal(withMetadata(zip, { AOTI_CPU_ISA: isa }))).toMatch(
      new RegExp(
        `^weights_invalid: the package was compiled for a processor with ${told}, which this one \\(.+\\) lacks: ${waysOut}$`,
      ),
    );
  });

  test("for another architecture is refused", async () => {
    const [own, other] = isX86 ? ["x86_64", "aarch64"] : ["aarch64", "x86_64"];
    expect(await refusal(withMetadata(zip, { AOTI_MACHINE: other }))).toBe(
      `weights_invalid: the package was compiled for ${other}, this machine is ${own}: ${waysOut}`,
    );
  });
});

test("TorchScript runs on any processor", () => {
  expect(new WeightsFile(script).processor).toBeUndefined();
});

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
    return cli(args, { env: { SCONCE_HOME: dir.join("store") } });
  }
});

/** The error message of opening a package with these changed bytes. */
async function refusal(changed: Buffer): Promise<string> {
  await using dir = await tempDir();
  const path = dir.join("changed.pt2");
  await writeFile(path, changed);
  const { inputs, outputs } = compiled;
  return await failure(openSession({ path, device: "cpu", threads: 1, inputs, outputs }));
}
