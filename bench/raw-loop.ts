/**
 * raw-loop.ts MODEL INPUTS THREADS: a session of the addon with nothing around it, which runs what the packaged model's own
 * `preprocess` made beforehand of the inputs in a file. Answers the requests of raw.ts.
 */
import { rowParting } from "../src/engine/rows.ts";
import { decodeDataUrl } from "../src/model/data-url.ts";
import { filesOf } from "../src/model/file.ts";
import { loadModel } from "../src/model/load.ts";
import type { Tensor } from "../src/model/tensor.ts";
import { z } from "../src/model/z.ts";
import { openSession } from "../src/native/binding.ts";
import { mediaTypes } from "../src/store/manifest.ts";
import { ModelStore } from "../src/store/store.ts";
import { outputSchema } from "./networks.ts";
import { type RawAnswer, type RawOutputs, rawRequestSchema } from "./raw.ts";
import { median, sum } from "./turns.ts";

interface Item {
  readonly input: unknown;
  readonly tensors: readonly Tensor[];
}

const LARGEST_WARM_UP = 64;

const [name = "", path = "", threads = ""] = process.argv.slice(2);
const packaged = await new ModelStore().resolve(name);
const model = await loadModel(await packaged.code(), packaged.digest);
const [weights] = packaged.layersOf(mediaTypes.weights);
if (weights === undefined) throw new Error(`${name} has no weights`);
await model.setup({ asset: (title) => Bun.file(packaged.layer(title).path) });
const items: Item[] = [];
for (const input of z.array(z.unknown()).parse(await Bun.file(path).json())) items.push(await itemOf(input));
/** By their size, so that a batch of padded tensors has the least padding there can be. */
const sorted = items.map(({ tensors }) => tensors).toSorted((a, b) => elements(a) - elements(b));
const session = await openSession({
  path: weights.path,
  device: "cpu",
  threads: Number(threads),
  ...model.tensors,
});

async function itemOf(wire: unknown): Promise<Item> {
  const input = z.decode(model.input, wire);
  for (const file of filesOf(input)) file.fill(decodeDataUrl(file.url ?? "", file.limits.maxBytes));
  const tensors = await model.preprocess(input);
  return { input, tensors: Object.keys(model.tensors.inputs).flatMap((each) => tensors[each] ?? []) };
}

function elements(tensors: readonly Tensor[]): number {
  return sum(tensors.map(({ data }) => data.length));
}

/** Two batches under way, so that the next is there when one ends: what a server that is never idle could reach at best. */
async function throughput(rows: number, ms: number): Promise<RawAnswer> {
  const batches = Array.from({ length: Math.ceil(sorted.length / rows) }, (_, i) =>
    sorted.slice(i * rows, (i + 1) * rows),
  );
  const begin = performance.now();
  let running: Promise<unknown> = Promise.resolve();
  let passes = 0;
  do {
    for (const batch of batches) {
      const next = session.run(batch);
      await running;
      running = next;
    }
    passes += 1;
  } while (performance.now() - begin < ms);
  await running;
  const seconds = (performance.now() - begin) / 1000;
  return { perSecond: (passes * sorted.length) / seconds, medianMs: (1000 * seconds) / (passes * batches.length) };
}

async function latency(rows: number, ms: number): Promise<RawAnswer> {
  const batch = sorted.slice(0, rows);
  const times: number[] = [];
  const begin = performance.now();
  let now = begin;
  while (now - begin < ms) {
    await session.run(batch);
    const then = now;
    now = performance.now();
    times.push(now - then);
  }
  return { perSecond: (1000 * times.length * rows) / (now - begin), medianMs: median(times) };
}

async function outputs(): Promise<RawOutputs> {
  const rowsOf = rowParting(model.tensors.outputs);
  const given: RawOutputs["outputs"] = [];
  for (const { input, tensors } of items) {
    const output = await model.postprocess(rowsOf(await session.run([tensors]), 0, new Map()), { input });
    given.push(outputSchema.parse(z.encode(model.output, output)));
  }
  return { outputs: given };
}

for (const rows of [1, Math.min(items.length, LARGEST_WARM_UP)]) await latency(rows, 50);
for await (const line of console) {
  const asked = rawRequestSchema.parse(JSON.parse(line));
  if ("outputs" in asked) console.log(JSON.stringify(await outputs()));
  else console.log(JSON.stringify(await (asked.isAlone ? latency : throughput)(asked.rows, asked.ms)));
}
