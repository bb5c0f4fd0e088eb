/**
 * Packed layers have weights in the order that suits the processor. Packed layers give the values of PyTorch, in any
 * network.
 */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { float32, float64, type Tensor, type TensorSpecs, tensor } from "../../src/author/tensor.ts";
import type { NativeSession } from "../../src/engine/native/binding.ts";
import { keptMemory } from "../../src/machine/libtorch/libtorch-env.ts";
import { run } from "../helpers/child-output.ts";
import { failure } from "../helpers/failure.ts";
import { sessions } from "../helpers/sessions.ts";
import { greatestDifference, itemsOf } from "../helpers/tensors.ts";
import { fixtures } from "../helpers/weights.ts";

const tensorSchema = z.object({ shape: z.array(z.int()), data: z.array(z.number()) });
type Known = z.infer<typeof tensorSchema>;

/** With AVX-512, oneDNN runs layers in bfloat16. */
const canBfloat16 = / avx512bw /.test(readFileSync("/proc/cpuinfo", "utf8"));

const folder = (await fixtures()).path("layers");
const schema = z.record(z.string(), z.record(z.string(), tensorSchema));
const known = schema.parse(await Bun.file(join(folder, "layers.json")).json());
const openSession = sessions();

/**
 * Each weights file with its network, and the number of layers that can be packed (a shared layer counts once). `most`
 * is the allowed error; a number in bfloat16 has 8 significant bits.
 */
const files: readonly { file: string; network: string; packed: number; most?: number }[] = [
  { file: "Residual.pt", network: "Residual", packed: 8 },
  { file: "traced.pt", network: "Residual", packed: 8 },
  { file: "exported.pt2", network: "Residual", packed: 8 },
  { file: "decomposed.pt2", network: "Residual", packed: 8 },
  { file: "Halves.pt", network: "Halves", packed: canBfloat16 ? 8 : 0, most: 0.05 },
  { file: "Shapes.pt", network: "Shapes", packed: 3 },
  { file: "Viewed.pt", network: "Viewed", packed: 2 },
  { file: "Asked.pt", network: "Asked", packed: 1 },
  { file: "Products.pt", network: "Products", packed: 2 },
  { file: "Branches.pt", network: "Branches", packed: 3 },
  { file: "ChannelsLast.pt", network: "ChannelsLast", packed: 2 },
  { file: "Strided.pt", network: "Strided", packed: 5 },
  { file: "WrittenInto.pt", network: "WrittenInto", packed: 1 },
  { file: "Scales.pt", network: "Scales", packed: 1 },
  { file: "Squeezed.pt", network: "Squeezed", packed: 2 },
  { file: "Aliased.pt", network: "Aliased", packed: 0 },
  { file: "Spread.pt", network: "Spread", packed: 5 },
  { file: "Given.pt", network: "Given", packed: 0 },
  { file: "Written.pt", network: "Written", packed: 0 },
];

test("a module with no method but forward has packed layers in calls, too", async () => {
  const { x, y } = known.Residual ?? {};
  for (const [file, packed] of [
    ["traced.pt", 8],
    ["exported.pt2", 8],
  ] as const) {
    const session = await openSession({ path: join(folder, file) });
    expect(session.packedLayers).toBe(packed);
    const given = await session.call("forward", [tensor(Float32Array.from(x?.data ?? []), x?.shape ?? [])]);
    expect(given).toMatchObject({ dtype: "float32", shape: y?.shape });
    expect(greatestDifference(y?.data ?? [], (given as Tensor).data)).toBeLessThan(1e-4);
  }
});

async function open(file: string, network: string, pack?: boolean): Promise<NativeSession> {
  const { x, ...outputs } = known[network] ?? {};
  const specs = (tensors: Record<string, Known | undefined>): TensorSpecs =>
    Object.fromEntries(Object.entries(tensors).map(([name, each]) => [name, float32(...(each?.shape.slice(1) ?? []))]));
  const path = join(folder, file);
  const session = await openSession({
    path,
    inputs: specs({ x }),
    outputs: specs(outputs),
    pack,
  });
  return session;
}

/** The inputs of the network for which PyTorch's outputs are known, as items. */
function items(network: string) {
  const { shape = [], data = [] } = known[network]?.x ?? {};
  return itemsOf([tensor(Float32Array.from(data), shape)]);
}

describe.each(files)("$file", ({ file, network, packed, most = 1e-4 }) => {
  test("gives PyTorch's outputs with packed and with plain layers", async () => {
    const sessions = [await open(file, network), await open(file, network, false)];
    expect(sessions.map(({ packedLayers }) => packedLayers)).toEqual([packed, 0]);
    const { x: _, ...outputs } = known[network] ?? {};
    for (const session of sessions) {
      const given = await session.run(items(network));
      for (const [at, { shape, data }] of Object.values(outputs).entries()) {
        expect(given[at]?.shape).toEqual(shape);
        expect(greatestDifference(data, given[at]?.data)).toBeLessThan(most);
      }
    }
  });
});

test("a packed convolution of pooled pictures is as exact as PyTorch's", async () => {
  const exact = known.exact?.y?.data ?? [];
  const distance = (data: ArrayLike<unknown>) =>
    exact.reduce((sum, value, i) => sum + Math.abs(value - Number(data[i])), 0) / exact.length;
  const [given] = await (await open("Squeezed.pt", "Squeezed")).run(items("Squeezed"));
  expect(distance(given?.data ?? [])).toBeLessThan(1.25 * distance(known.Squeezed?.y?.data ?? []));
});

describe("an input whose size the layers refuse", () => {
  const strange = [
    { what: "other channels", file: "Shapes.pt", shape: [2, 8, 8] },
    { what: "a picture smaller than the kernel", file: "Shapes.pt", shape: [3, 2, 1] },
    { what: "no pixels", file: "Shapes.pt", shape: [3, 0, 8] },
    { what: "another dtype", file: "Shapes.pt", shape: [3, 8, 8], dtype: float64 },
    { what: "other columns", file: "Products.pt", shape: [3, 8, 4] },
    { what: "another dtype for a product", file: "Products.pt", shape: [3, 8, 8], dtype: float64 },
    { what: "any, for a convolution with strides of 0", file: "Stopped.pt", shape: [3, 8, 8] },
    { what: "any, where results do not fit what they are written into", file: "TooLarge.pt", shape: [3, 8, 8] },
  ];
  test.each(strange)("fails as in libtorch: $what", async ({ file, shape, dtype = float32 }) => {
    const told = [];
    for (const pack of [true, false]) {
      const inputs = { x: dtype("channels", "height", "width") };
      const outputs = { y: float32("channels", "height", "width") };
      const path = join(folder, file);
      const session = await openSession({ path, inputs, outputs, pack });
      const size = shape.reduce((product, each) => product * each);
      const data = dtype === float64 ? new Float64Array(size) : new Float32Array(size);
      told.push(await failure(session.run([[tensor(data, shape)]])));
    }
    expect(told[0]).toBe(told[1] ?? "");
  });
});

test("packed weights are freed with their session, and the system gets the memory back", async () => {
  const script = require.resolve("../helpers/packed-memory-child.ts");
  // The engine process has the same memory settings.
  const env = { ...process.env, ...keptMemory };
  const { stdout } = await run([process.execPath, "--no-install", script, join(folder, "Vast.pt")], { env });
  const { opened, disposed } = JSON.parse(stdout);
  expect(opened).toBeGreaterThan(64_000_000);
  expect(disposed).toBeLessThan(opened / 2);
}, 60_000);

/** Runs batches of two sizes `count` times in a process. @returns the names of oneDNN's operations in each pass */
async function passesOf(count: number): Promise<string[][]> {
  const script = require.resolve("../helpers/packed-reorders-child.ts");
  const command = [process.execPath, "--no-install", script, join(folder, "Scales.pt"), String(count)];
  // With this variable oneDNN prints every operation.
  const { stdout } = await run(command, { env: { ...process.env, ONEDNN_VERBOSE: "profile_exec" } });
  const [, ...passes] = stdout.split("pass\n");
  return passes.map((text) => [...text.matchAll(/,exec,cpu,(\w+)/g)].map(([, operation = ""]) => operation));
}

test("weights are not rearranged again for batch sizes that have run", async () => {
  const [, done = []] = await passesOf(2);
  expect(done.filter((each) => each === "convolution").length).toBe(6);
  expect(done).not.toContain("reorder");
}, 60_000);
