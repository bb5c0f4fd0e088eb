/** ResNet-18 on a GPU: the engine fed with ready tensors, to be measured beside PyTorch for Python with the same. */
import { join } from "node:path";
import { resolveDevices } from "../src/engine/device.ts";
import type { Item } from "../src/engine/engine.ts";
import { LocalEngine } from "../src/engine/local-engine.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import { warmUp } from "../src/engine/warm-up.ts";
import { float32, tensor, uint8 } from "../src/model/tensor.ts";
import type { Sample, Start, Target } from "./target.ts";

const inputs = { image: uint8(3, 224, 224) };
const outputs = { scores: float32(1000) };

/** An engine in which as many items wait as two more batches hold. */
export function fedEngine(rows: number, asked: string): Start {
  return async ({ folder }) => {
    const [device = asked] = resolveDevices({ operator: asked });
    const weights = { model: join(folder, "weights.pt") };
    const options = { weights, operators: [], predict: undefined, inputs, outputs, threads: 1, instances: 1 };
    const runners = await openRunners({ ...options, devices: [device] });
    await warmUp({ runners, inputs, item: undefined, maxBatchSize: rows, threads: 1, everySize: device !== "cpu" });
    const engine = new LocalEngine<Item>({ runners, inputs, outputs, maxBatchSize: rows, maxQueueDelayMs: 0 });
    return {
      title: "sconce",
      measure: ({ seconds }) => feed(engine, rows, seconds),
      [Symbol.asyncDispose]: () => engine.close(),
    } satisfies Target;
  };
}

async function feed(engine: LocalEngine<Item>, rows: number, seconds: number): Promise<Sample> {
  const items = Array.from({ length: rows }, () => ({
    image: tensor(crypto.getRandomValues(new Uint8Array(3 * 224 * 224)), [3, 224, 224]),
  }));
  const { promise, resolve } = Promise.withResolvers<Sample>();
  const begin = performance.now();
  let [waiting, count, failed] = [0, 0, 0];
  const lane = {};
  const submit = (index: number) => {
    waiting += 1;
    engine.submit({ lane, index }, items[index % rows] ?? {});
  };
  const finished = ({ index }: Item) => {
    waiting -= 1;
    count += 1;
    const ms = performance.now() - begin;
    if (ms < seconds * 1000) submit(index);
    else if (waiting === 0) resolve({ perSecond: (1000 * count) / ms, failed });
  };
  engine.listener = {
    dispatched() {},
    finished,
    failed(item) {
      failed += 1;
      finished(item);
    },
  };
  for (let index = 0; index < 4 * rows; index++) submit(index);
  return promise;
}
