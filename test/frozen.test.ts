/**
 * Freezing weights, and folding and packing layers, changes no output: each network gives the values of PyTorch in
 * eager mode.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { frozenNetworks } from "./helpers/exports.ts";
import { failure } from "./helpers/failure.ts";
import { sessions } from "./helpers/sessions.ts";
import { itemsOf } from "./helpers/tensors.ts";

const tensorSchema = z.object({ shape: z.array(z.int()), data: z.array(z.number()) });
const networksSchema = z.record(z.string(), z.object({ files: z.array(z.string()), x: tensorSchema, y: tensorSchema }));
type Known = z.infer<typeof tensorSchema>;

const open = sessions();
const folder = await frozenNetworks();
const networks = networksSchema.parse(await Bun.file(join(folder, "frozen.json")).json());

/** The first output for a batch of all items. The batch runs twice, since TorchScript optimizes after the first run. */
async function run(file: string, { x, y, pack }: { x: Known; y: Known; pack: boolean }): Promise<Tensor> {
  const session = await open({
    path: join(folder, file),
    inputs: { x: float32(...x.shape.slice(1)) },
    outputs: { y: float32(...y.shape.slice(1)) },
    pack,
  });
  await session.run(itemsOf([tensorOf(x)]));
  const [given] = await session.run(itemsOf([tensorOf(x)]));
  if (given === undefined) throw new Error(`${file} gave nothing`);
  return given;
}

const tensorOf = ({ shape, data }: Known) => tensor(Float32Array.from(data), shape);

async function call(file: string, x: Known): Promise<Tensor> {
  const session = await open({ path: join(folder, file) });
  return (await session.call("forward", [tensorOf(x)])) as Tensor;
}

/** Largest difference between two outputs, relative to the larger value, or absolute for values below 1. */
function apart(expected: Known, given: Tensor): number {
  return Math.max(
    ...expected.data.map((value, i) => {
      const other = Number(given.data[i]);
      return Math.abs(value - other) / Math.max(1, Math.abs(value), Math.abs(other));
    }),
  );
}

/** Whether sconce refuses a file: it folds the batch norm of a convolution that would accept a missing batch dimension. */
const isRefused = (name: string, file: string) =>
  name.startsWith("unbatched") && /(scripted|exported)\.pt2?$/.test(file);

const waysOf = (file: string, { x, y }: { x: Known; y: Known }) => ({
  packed: () => run(file, { x, y, pack: true }),
  plain: () => run(file, { x, y, pack: false }),
  called: () => call(file, x),
});

test("networks give the same outputs as PyTorch, exported, scripted or traced, packed or plain, in batches and in calls", async () => {
  const wrong: string[] = [];
  for (const [name, { files, x, y }] of Object.entries(networks)) {
    for (const file of files.filter((each) => !isRefused(name, each))) {
      for (const [way, give] of Object.entries(waysOf(file, { x, y }))) {
        const given = await give().catch((error: Error) => error.message);
        const difference = typeof given === "string" ? given : apart(y, given);
        const isRight = typeof given !== "string" && Bun.deepEquals(given.shape, y.shape) && Number(difference) < 1e-5;
        if (!isRight) wrong.push(`${name}, ${file}, ${way}: ${difference}`);
      }
    }
  }
  expect(wrong).toEqual([]);
}, 60_000);

test("a convolution before a batch norm refuses an input without a batch dimension", async () => {
  const messages = new Set<string>();
  for (const [name, { files, x, y }] of Object.entries(networks)) {
    for (const file of files.filter((each) => isRefused(name, each))) {
      for (const give of Object.values(waysOf(file, { x, y }))) messages.add(await failure(give()));
    }
  }
  const refusal = (dimensions: number, weights: string, input: string) =>
    `run_failed: Expected ${dimensions}-dimensional input for ${dimensions}-dimensional weight [${weights}], ` +
    `but got ${dimensions - 1}-dimensional input of size [${input}] instead`;
  expect([...messages]).toEqual([refusal(3, "8, 3, 3", "3, 10"), refusal(4, "8, 3, 3, 3", "3, 8, 8")]);
});

test("sconce folds the batch norms of a scripted file as those of a traced one: both give the same bits", async () => {
  const network = networks.convolution;
  if (network === undefined) throw new Error("frozen.py has no convolution");
  const given = async (form: string) => {
    const file = network.files.find((each) => each.endsWith(form)) ?? "";
    const { data } = await run(file, { x: network.x, y: network.y, pack: false });
    return [...data];
  };
  expect(await given("scripted.pt")).toEqual(await given("traced.pt"));
});
