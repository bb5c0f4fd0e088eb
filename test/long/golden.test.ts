/**
 * The outputs of a model's example: `build --compare` compares them with PyTorch's, and each start of the server
 * compares them with the outputs of the build.
 */
import { expect, test } from "bun:test";
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { CallArgument, Predict } from "../../src/author/session.ts";
import { unstack } from "../../src/author/stack.ts";
import { float32, int64, type Tensor } from "../../src/author/tensor.ts";
import { ComparedReference, compareWithReference, type NamedCall } from "../../src/cli/build/compared-reference.ts";
import { recording } from "../../src/cli/build/recorded-calls.ts";
import { openRunners } from "../../src/engine/open-runners.ts";
import { goldenTitle } from "../../src/package/store/manifest.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { compareGolden, decodeGolden, encodeGolden } from "../../src/pipeline/golden.ts";
import { commandLine } from "../helpers/command-line.ts";
import { exactPrograms, mistakes, tiedNetworks } from "../helpers/exports.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";

const [programs, ties] = await Promise.all([exactPrograms(), tiedNetworks()]);
const tensors = { inputs: { x: float32("length") }, outputs: { y: float32("length") } };
const item = [{ dtype: "float32", shape: [4], data: Float32Array.of(1, 2, 3, 4) }] as const;

const dir = fixture(tempDir);
const sconce = fixture(() =>
  commandLine({ env: { SCONCE_HOME: dir.join("home"), SCONCE_CACHE_DIR: dir.join("cache") } }),
);

async function programOf(name: string): Promise<string> {
  const cases: { name: string; file: string }[] = await Bun.file(join(programs, "cases.json")).json();
  return join(programs, cases.find((one) => one.name === name)?.file ?? "");
}

const opening = { operators: [], predict: undefined, devices: ["cpu"], threads: 1, instances: 1 };

/** Compares the outputs of weights with those of a program. */
async function comparison(weights: string, given: Parameters<typeof compareWithReference>[1]) {
  const [runner] = await openRunners({ weights: { main: weights }, ...opening, ...given.tensors });
  if (runner === undefined) throw new Error("no runner");
  await using closing = new AsyncDisposableStack();
  closing.defer(() => runner.dispose());
  return await compareWithReference(runner, given);
}

async function compared(weights: string, program: string) {
  const odd = [{ ...item[0], shape: [3], data: Float32Array.of(1, 2, 3) }];
  const sizes = [{ name: "x.size(1)", size: 3, item: odd }];
  return await comparison(weights, { path: program, tensors, item, sizes, maxBatchSize: 4 });
}

test("weights are compared with PyTorch: the example, a batch, other values, and sizes that sconce and PyTorch refuse", async () => {
  const even = await programOf("a branch by an even size");
  expect(await compared(even, even)).toMatchObject({
    compared: 5,
    refused: 1,
    explained: 0,
    missing: undefined,
    differences: [],
  });
});

test.each([
  ["fixed-two", "fixed at 2"],
  ["three-or-more", ""],
])("%s.pt2 is compared with PyTorch in batches that the program allows, and packaged", async (name, message) => {
  const file = join(await mistakes(), `${name}.pt2`);
  const built = await sconce.cliHere(["build", file, "--compare"]);
  expect(built).toMatchObject({ code: 0, stderr: expect.stringContaining(message) });
  const { stdout } = await sconce.cliHere(["check", file, "--compare", "--json"]);
  expect(JSON.parse(stdout).reference).toMatchObject({ compared: 5, refused: 0, differences: [] });
});

test("weights whose outputs differ from PyTorch's are found", async () => {
  const [even, other] = [await programOf("a branch by an even size"), await programOf("infinity")];
  const { differences } = await compared(other, even);
  const text = `with the example, output "y" differs from PyTorch's in 4 of 4 elements (100 %), by up to 4 at [0, 3] (`;
  expect(differences).toContainEqual(expect.stringContaining(text));
});

/** Compares the weights of a network with near ties with the program of another one. */
async function comparedTies(kind: "mask" | "boxes", weights: string) {
  const data = new Float32Array(await Bun.file(join(ties, `${kind}.bin`)).arrayBuffer());
  const int = int64(kind === "mask" ? 8000 : 512);
  const boxes = { y: float32(512, 4), scores: float32(512), places: int };
  const tensors = { inputs: { x: float32(8000, 12) }, outputs: kind === "mask" ? { y: int } : boxes };
  const item = [{ dtype: "float32", shape: [8000, 12], data }] as const;
  const given = { path: join(ties, `${kind}.pt2`), tensors, item, sizes: [], maxBatchSize: 2, isFree: false };
  return await comparison(join(ties, `${weights}.pt2`), given);
}

test.each(["mask", "boxes"] as const)(
  "near ties of %s are decided otherwise without a refusal, if PyTorch's own runs decide them otherwise, too",
  async (kind) => {
    const { differences, explained, compared } = await comparedTies(kind, `${kind}-reordered`);
    expect({ differences, compared }).toEqual({ differences: [], compared: 4 });
    expect(explained).toBeGreaterThan(0);
  },
);

test.each(["mask", "boxes"].flatMap((kind) => ["half", "swapped", "activation"].map((change) => [kind, change])))(
  "%s with near ties and a wrong export (%s) is refused, with the count, the share and the place",
  async (kind = "", change) => {
    const { differences } = await comparedTies(kind === "mask" ? "mask" : "boxes", `${kind}-${change}`);
    expect(differences[0]).toMatch(
      /^with .*, output "\w+" differs from PyTorch's in \d+ of \d+ elements \([\d.]+ %\), by up to .* at \[\d.*\] \(.* in place of .*\); \d+ other runs of PyTorch .* differ in at most \d+ elements/,
    );
  },
);

test("calls of begin and step are compared with PyTorch, and a prefill of one item is no finding", async () => {
  const folder = dir.join("steps");
  await mkdir(folder);
  for (const name of ["prefill", "step"]) await copyFile(join(ties, `${name}.pt2`), join(folder, `${name}.pt2`));
  await Bun.write(join(folder, "model.ts"), stepsModel);
  const { stdout, code } = await sconce.cliHere(["check", folder, "--compare", "--json"]);
  const { reference, findings } = JSON.parse(stdout);
  expect({ code, findings }).toEqual({ code: 0, findings: [] });
  expect(reference).toEqual({ compared: 16, refused: 0, explained: 0, differences: [] });
});

/** Runs `main.pt2` of the ties once through a `predict` with this call, and compares the call with `mask.pt2` in PyTorch. */
async function comparedCall(main: string, argumentsOf: (x: Tensor) => CallArgument) {
  const calls = new Map<string, NamedCall[]>();
  const data = new Float32Array(await Bun.file(join(ties, "mask.bin")).arrayBuffer());
  const specs = { inputs: { x: float32(8000, 12) }, outputs: { y: int64(8000) } };
  const own: Predict = async ({ x }, { main }) => {
    if (x === undefined || main === undefined) throw new Error("no input");
    return main.call<{ y: Tensor }>("forward", argumentsOf(x));
  };
  const predict = recording(own, calls);
  const [runner] = await openRunners({ ...opening, weights: { main: join(ties, main) }, ...specs, predict });
  await runner?.run([[{ dtype: "float32", shape: [8000, 12], data }]]);
  await runner?.dispose();
  return new ComparedReference().add(join(ties, "mask.pt2"), calls.get("main") ?? []);
}

test("a call of the model's own code whose result is wrong is a difference", async () => {
  const { differences } = await comparedCall("mask-swapped.pt2", (x) => x);
  expect(differences).toEqual([
    expect.stringMatching(/^with call 1 of "main", output "y" differs from PyTorch's in 1\d\d\d of/),
  ]);
});

test("a call with a list of tensors, which sconce stacks, is compared with PyTorch", async () => {
  const { differences, compared } = await comparedCall("mask.pt2", unstack);
  expect({ differences, compared }).toEqual({ differences: [], compared: 1 });
});

test("a build stores the outputs of the example, and equal models have equal tags", async () => {
  const build = () => sconce.cliHere(["build", "examples/digits"]);
  const [one, two] = [await build(), await build()];
  expect(one.stdout).toBe(two.stdout);
  const packaged = await new ModelStore(dir.join("home")).resolve("digits");
  const { inputs, outputs } = decodeGolden(await Bun.file(packaged.golden ?? "").bytes());
  expect([inputs, outputs].map((all) => all.map(({ shape }) => shape))).toEqual([[[20, 20]], [[1, 10]]]);
});

/** Builds a model with near ties in its example. */
async function builtTies(name: string) {
  const folder = dir.join(name);
  await mkdir(folder);
  await copyFile(join(ties, `${name}.pt2`), join(folder, `${name}.pt2`));
  await copyFile(join(ties, "mask.bin"), join(folder, "mask.bin"));
  await Bun.write(join(folder, "model.ts"), maskModel(name));
  return sconce.cliHere(["build", folder, "--no-compare"]);
}

test("a build keeps the number of elements that rounding decides", async () => {
  expect(await builtTies("mask")).toMatchObject({ code: 0, stderr: "" });
  const packaged = await new ModelStore(dir.join("home")).resolve("mask");
  const { differing } = decodeGolden(await Bun.file(packaged.golden ?? "").bytes());
  // The example has 20 places with near ties.
  expect(differing[0]).toBeGreaterThan(0);
  expect(differing[0]).toBeLessThan(40);
});

test("a batch may decide near ties otherwise than one item alone, and may not mix items", async () => {
  expect(await builtTies("rounded")).toMatchObject({ code: 0, stderr: "" });
  const mixed = /output "y" differs by up to \d in \d+ of 8000 elements when the example runs in a batch/;
  expect(await builtTies("mixed")).toMatchObject({ code: 1, stderr: expect.stringMatching(mixed) });
});

test.each([
  ["twice as many elements as runs at build", 2, 1, true],
  ["more elements", 3, 1, false],
])("a server whose outputs differ in %s starts or is refused", async (_, changed, seen, isAccepted) => {
  const values = Float32Array.from({ length: 10 }, (_, i) => i);
  const moved = values.map((value, i) => (i < changed ? value + 1 : value));
  const outputs = [{ dtype: "float32", shape: [1, 10], data: values }] as const;
  const golden = { inputs: [], outputs: [{ ...outputs[0], data: moved }], differing: [seen] };
  const comparing = compareGolden([{ run: async () => outputs }], { scores: float32(10) }, golden);
  const fault = await comparing.then(() => undefined, String);
  expect(fault).toEqual(
    isAccepted ? undefined : expect.stringContaining("at most 2 may differ, as runs at build differed in 1"),
  );
});

async function goldenOfDigits() {
  const packaged = await new ModelStore(dir.join("home")).resolve("digits");
  return decodeGolden(await Bun.file(packaged.golden ?? "").bytes());
}

test("a server whose outputs differ from the build's does not start", async () => {
  const store = new ModelStore(dir.join("home"));
  const packaged = await store.resolve("digits");
  const golden = await goldenOfDigits();
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
  const refused = await sconce.cliHere(["serve", "moved", "--port", "0"]);
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /output "scores" of the example differs by up to 0\.\d+ in \d+ of 10 elements from the output of the build/,
    ),
  });
});

test("if Python cannot start, the build says that it compared nothing, and why", async () => {
  await copyFile(await programOf("a branch by an even size"), dir.join("even.pt2"));
  const { code, stderr } = await sconce.cliHere(["build", dir.join("even.pt2"), "--compare"], {
    // With this variable Python cannot find its library, so it does not start.
    env: { PYTHONHOME: dir.join("nowhere") },
  });
  const reason = /not compared with PyTorch: (.*)/.exec(stderr)?.[1];
  expect({ code, reason }).toEqual({
    code: 0,
    reason: expect.stringMatching(
      /^\S*python\S* stopped with a fatal error: .*filesystem encoding; PYTHONHOME is \/.*nowhere: does this folder belong to \S*python\S*\?$/,
    ),
  });
});

/** The example has a file, so the trial invents no values beyond those of the example. */
const maskModel = (name: string) => `import { defineModel, file, float32, int64, tensor, z } from "sconce";

export default defineModel({
  name: "${name}",
  input: z.object({ places: file() }),
  output: z.object({ classes: z.array(z.int()) }),
  tensors: { inputs: { x: float32(8000, 12) }, outputs: { y: int64(8000) } },
  weights: "${name}.pt2",
  batchSize: 2,
  example: { places: "mask.bin" },
  preprocess: ({ places }) => ({ x: tensor(new Float32Array(new Uint8Array(places.bytes).buffer), [8000, 12]) }),
  postprocess: ({ y }) => ({ classes: [...new Set(y.data)].map(Number) }),
});
`;

const stepsModel = `import { type DeviceTensor, defineModel, float32, int64, type Tensor, tensor, z } from "sconce";

interface Text {
  readonly cache: Tensor;
  readonly left: number;
}

export default defineModel({
  name: "steps",
  input: z.object({ ids: z.array(z.int().min(0).max(9)).min(2) }),
  output: z.object({ mean: z.number() }),
  tensors: { inputs: { ids: int64("length") }, outputs: { mean: float32() } },
  weights: { prefill: "prefill.pt2", step: "step.pt2" },
  batchSize: 2,
  example: { ids: [1, 2, 3] },
  preprocess: ({ ids }) => ({ ids: tensor.int64(ids) }),
  async begin({ ids }, { prefill }): Promise<Text> {
    return { cache: await prefill.call("forward", tensor(ids.data, [1, ids.data.length])), left: 3 };
  },
  step: (texts, { step }) =>
    Promise.all(
      texts.map(async ({ cache, left }) => {
        const ids = tensor.int64([left]);
        const [mean, longer] = await step.call<readonly [DeviceTensor<"float32">, DeviceTensor]>("forward", ids, cache);
        return left > 1 ? { state: { cache: longer, left: left - 1 } } : { outputs: { mean: tensor.float32(mean.item()) } };
      }),
    ),
  postprocess: ({ mean }) => ({ mean: mean.item() }),
});
`;
