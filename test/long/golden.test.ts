/**
 * The outputs of a model's example: `build --compare` compares them with PyTorch's, and each start of the server
 * compares them with the outputs of the build.
 */
import { beforeAll, expect, test } from "bun:test";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { float32, type Tensor } from "../../src/author/tensor.ts";
import { compareWithReference } from "../../src/cli/build/compared-reference.ts";
import { openRunners } from "../../src/engine/open-runners.ts";
import { goldenTitle } from "../../src/package/store/manifest.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { decodeGolden, encodeGolden } from "../../src/pipeline/golden.ts";
import { cli } from "../helpers/cli.ts";
import { cliHere } from "../helpers/command-here.ts";
import { exactPrograms, mistakes } from "../helpers/exports.ts";
import { fixture } from "../helpers/fixture.ts";
import { tempDir } from "../helpers/temp-dir.ts";

let programs: string;
const env = () => ({ SCONCE_HOME: dir.join("home"), SCONCE_CACHE_DIR: dir.join("cache") });
const tensors = { inputs: { x: float32("length") }, outputs: { y: float32("length") } };
const item = [{ dtype: "float32", shape: [4], data: Float32Array.of(1, 2, 3, 4) }] as const;

const dir = fixture(tempDir);
beforeAll(async () => {
  programs = await exactPrograms();
});

async function programOf(name: string): Promise<string> {
  const cases: { name: string; file: string }[] = await Bun.file(join(programs, "cases.json")).json();
  return join(programs, cases.find((one) => one.name === name)?.file ?? "");
}

async function compared(weights: string, program: string) {
  const [runner] = await openRunners({
    weights: { main: weights },
    operators: [],
    predict: undefined,
    ...tensors,
    devices: ["cpu"],
    threads: 1,
    instances: 1,
  });
  if (runner === undefined) throw new Error("no runner");
  try {
    const odd = [{ ...item[0], shape: [3], data: Float32Array.of(1, 2, 3) }];
    const sizes = [{ name: "x.size(1)", size: 3, item: odd }];
    return await compareWithReference(runner, { path: program, tensors, item, sizes, maxBatchSize: 4 });
  } finally {
    await runner.dispose();
  }
}

test("weights are compared with PyTorch: the example, a batch, other values, and sizes that sconce and PyTorch refuse", async () => {
  const even = await programOf("a branch by an even size");
  expect(await compared(even, even)).toEqual({ compared: 5, refused: 1, missing: undefined, differences: [] });
});

test.each([
  ["fixed-two", "The batch of fixed-two.pt2 is fixed at 2: leave the first size free"],
  ["three-or-more", "The batch size is 32, unmeasured"],
])("%s.pt2 is compared with PyTorch in batches that the program allows, and packaged", async (name, message) => {
  const file = join(await mistakes(), `${name}.pt2`);
  const built = await cliHere(["build", file, "--compare"], { env: env() });
  expect(built).toMatchObject({ code: 0, stderr: expect.stringContaining(message) });
  const { stdout } = await cliHere(["check", file, "--compare", "--json"], { env: env() });
  expect(JSON.parse(stdout).reference).toMatchObject({ compared: 5, refused: 0, differences: [] });
});

test("weights whose outputs differ from PyTorch's are found", async () => {
  const [even, other] = [await programOf("a branch by an even size"), await programOf("infinity")];
  const { differences } = await compared(other, even);
  expect(differences).toContain('with the example, output "y" differs by up to 4 from PyTorch\'s');
});

test("a build stores the outputs of the example, and equal models have equal tags", async () => {
  const build = () => cliHere(["build", "examples/digits"], { env: env() });
  const [one, two] = [await build(), await build()];
  expect(one.stdout).toBe(two.stdout);
  const packaged = await new ModelStore(dir.join("home")).resolve("digits");
  const { inputs, outputs } = decodeGolden(await Bun.file(packaged.golden ?? "").bytes());
  expect([inputs, outputs].map((all) => all.map(({ shape }) => shape))).toEqual([[[20, 20]], [[1, 10]]]);
});

test("a server whose outputs differ from the build's does not start", async () => {
  const store = new ModelStore(dir.join("home"));
  const packaged = await store.resolve("digits");
  const golden = decodeGolden(await Bun.file(packaged.golden ?? "").bytes());
  const wrong = golden.outputs.map((tensor): Tensor => ({ ...tensor, data: new Float32Array(10) }));
  await store.put({
    repository: "moved",
    config: packaged.config,
    layers: packaged.layers.map(({ mediaType, title, path }) => ({
      mediaType,
      title,
      source: title === goldenTitle ? encodeGolden({ ...golden, outputs: wrong }) : path,
    })),
  });
  const refused = await cli(["serve", "moved", "--port", "0"], { env: env() });
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /output "scores" of the example differs by up to 0\.\d+ from the output of the build/,
    ),
  });
});

test("if Python cannot start, the build says that it compared nothing, and why", async () => {
  await copyFile(await programOf("a branch by an even size"), dir.join("even.pt2"));
  const { code, stderr } = await cli(["build", dir.join("even.pt2"), "--compare"], {
    // With this variable Python cannot find its library, so it does not start.
    env: { ...env(), PYTHONHOME: dir.join("nowhere") },
  });
  const reason = /not compared with PyTorch: (.*)/.exec(stderr)?.[1];
  expect({ code, reason }).toEqual({
    code: 0,
    reason: expect.stringMatching(
      /^\S*python\S* stopped with a fatal error: .*filesystem encoding; PYTHONHOME is \/.*nowhere: does this folder belong to \S*python\S*\?$/,
    ),
  });
});
