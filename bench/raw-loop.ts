/**
 * raw-loop.ts MODEL INPUTS THREADS DEVICE LAYERS: runs batches on a session of the addon, without a server. INPUTS is
 * a JSON file; the model's `preprocess` makes its tensors beforehand. LAYERS is "packed" (weights rearranged for the
 * processor, as in the server) or "plain" (libtorch's layout). Answers the requests of raw.ts.
 */

import { decodeDataUrl } from "../src/author/data-url.ts";
import { filesOf } from "../src/author/file.ts";
import type { Tensor } from "../src/author/tensor.ts";
import { z } from "../src/author/z.ts";
import { openSession } from "../src/engine/native/binding.ts";
import { rowParting } from "../src/engine/rows.ts";
import { openPackaged } from "../src/package/code/load.ts";
import { mediaTypes } from "../src/package/store/manifest.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { sum } from "./numbers.ts";
import { rawRequestSchema } from "./raw.ts";

const LARGEST_WARM_UP = 64;
const WARM_UP_MS = 50;

const [name = "", path = "", threads = "", device = "", layers = ""] = process.argv.slice(2);
const packaged = await new ModelStore().resolve(name);
const model = await openPackaged(packaged);
const [weights] = packaged.layersOf(mediaTypes.weights);
if (weights === undefined) throw new Error(`${name} has no weights`);
await model.setup({ asset: (title) => Bun.file(packaged.layer(title).path) });
const items: { input: unknown; tensors: readonly Tensor[] }[] = [];
for (const wire of z.array(z.unknown()).parse(await Bun.file(path).json())) {
  const input = z.decode(model.input, wire);
  for (const file of filesOf(input)) file.fill(decodeDataUrl(file.url ?? "", file.limits.maxBytes));
  const tensors = await model.preprocess(input);
  items.push({ input, tensors: Object.keys(model.tensors.inputs).flatMap((each) => tensors[each] ?? []) });
}
const elements = (tensors: readonly Tensor[]) => sum(tensors.map(({ data }) => data.length));
const session = await openSession({
  path: weights.path,
  device,
  threads: Number(threads),
  pack: layers === "packed",
  ...model.tensors,
});

/** Runs batches for `ms`, two in flight so that the device never waits. @returns rows per second */
async function perSecond(rows: number, ms: number): Promise<number> {
  const sorted = inFull(rows);
  const begin = performance.now();
  let running: Promise<unknown> = Promise.resolve();
  let passes = 0;
  do {
    for (let i = 0; i < sorted.length; i += rows) {
      const next = session.run(sorted.slice(i, i + rows));
      await running;
      running = next;
    }
    passes += 1;
  } while (performance.now() - begin < ms);
  await running;
  return (1000 * passes * sorted.length) / (performance.now() - begin);
}

/** Tensors of whole batches, sorted by size for little padding. The first inputs repeat to fill the last batch. */
function inFull(rows: number): (readonly Tensor[])[] {
  const count = rows * Math.ceil(items.length / rows);
  return Array.from({ length: count }, (_, i) => items[i % items.length]?.tensors ?? []).sort(
    (a, b) => elements(a) - elements(b),
  );
}

async function outputs(): Promise<unknown[]> {
  const rowsOf = rowParting(model.tensors.outputs);
  const given: unknown[] = [];
  for (const { input, tensors } of items) {
    const output = await model.postprocess(rowsOf(await session.run([tensors]), 0, new Map()), { input });
    given.push(z.encode(model.output, output));
  }
  return given;
}

for (const rows of [1, LARGEST_WARM_UP]) {
  const [begin, batch] = [performance.now(), inFull(rows).slice(0, rows)];
  while (performance.now() - begin < WARM_UP_MS) await session.run(batch);
}
for await (const line of console) {
  const asked = rawRequestSchema.parse(JSON.parse(line));
  const answer =
    "outputs" in asked ? { outputs: await outputs() } : { perSecond: await perSecond(asked.rows, asked.ms) };
  console.log(JSON.stringify(answer));
}
