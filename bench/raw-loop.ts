/** raw-loop.ts FOLDER NETWORK THREADS: a session of the addon with nothing around it. Answers the requests of raw.ts. */
import type { Tensor } from "../src/model/tensor.ts";
import { openSession } from "../src/native/binding.ts";
import { isNetworkName, networks, readSamples, weightsOf } from "./networks.ts";
import { type RawAnswer, rawRequestSchema } from "./raw.ts";
import { median } from "./turns.ts";

const [folder = "", name = "", threads = ""] = process.argv.slice(2);
if (!isNetworkName(name)) throw new Error(`${name} is no network of this benchmark`);
const { inputs, outputs } = networks[name].model.tensors;
const path = weightsOf(folder);
const session = await openSession({ path, device: "cpu", threads: Number(threads), inputs, outputs });
const samples = await readSamples(folder);
const items = samples.inputs.map((x): Tensor[] => [{ dtype: "float32", shape: [x.length], data: new Float32Array(x) }]);

/** Two batches under way, so that the next is there when one ends: what a server that is never idle could reach at best. */
async function throughput(rows: number, ms: number): Promise<RawAnswer> {
  const batch = items.slice(0, rows);
  const begin = performance.now();
  let running = session.runBatch(batch);
  let count = 1;
  while (performance.now() - begin < ms) {
    const next = session.runBatch(batch);
    await running;
    running = next;
    count += 1;
  }
  await running;
  const seconds = (performance.now() - begin) / 1000;
  return { perSecond: (count * rows) / seconds, medianMs: (1000 * seconds) / count };
}

async function latency(rows: number, ms: number): Promise<RawAnswer> {
  const batch = items.slice(0, rows);
  const times: number[] = [];
  const begin = performance.now();
  let now = begin;
  while (now - begin < ms) {
    await session.runBatch(batch);
    const then = now;
    now = performance.now();
    times.push(now - then);
  }
  return { perSecond: (1000 * times.length * rows) / (now - begin), medianMs: median(times) };
}

for (const rows of [1, items.length]) await latency(rows, 50);
for await (const line of console) {
  const { rows, ms, isAlone } = rawRequestSchema.parse(JSON.parse(line));
  console.log(JSON.stringify(await (isAlone ? latency : throughput)(rows, ms)));
}
