/** ResNet-18 on a GPU: the engine fed with ready tensors, beside PyTorch for Python with the same. */
import { join } from "node:path";
import { resolveDevices } from "../src/engine/device.ts";
import type { Item } from "../src/engine/engine.ts";
import { LocalEngine } from "../src/engine/local-engine.ts";
import { openRunners } from "../src/engine/open-runners.ts";
import { warmUp } from "../src/engine/warm-up.ts";
import { float32, type Tensor, tensor, uint8 } from "../src/model/tensor.ts";
import { z } from "../src/model/z.ts";
import { Child } from "./child.ts";
import { atLeast, type CaseOptions, type Measurement } from "./measurement.ts";
import { madeBy, python } from "./networks.ts";
import { perSecond } from "./quantity.ts";
import { inTurns, median, spread } from "./turns.ts";

const inputs = { image: uint8(3, 224, 224) };
const outputs = { scores: float32(1000) };
const answerSchema = z.object({ perSecond: z.number() });

/** @param rows of the largest batch; @param asked a device, "cuda" where a goal is to be reached */
export async function resnetCuda(
  { seconds, repeats, canary }: CaseOptions,
  { rows = 64, asked = "cuda" } = {},
): Promise<Measurement> {
  const [device = "cuda:0"] = resolveDevices({ operator: asked });
  const path = join(await madeBy("resnet18.py", { name: "resnet18", makes: "weights.pt" }), "weights.pt");
  const { command, env } = python();
  await using raw = new Child([command, join(import.meta.dir, "resnet_cuda_loop.py"), path, device], env);
  const ready = await Fed.open({ path, device, rows });
  try {
    const turns = await inTurns(
      repeats,
      async () => {
        await canary.listen();
        return answerSchema.parse(await raw.ask({ rows, ms: seconds * 1000 })).perSecond;
      },
      () => ready.throughput(seconds),
    );
    const values = turns.map(({ before, measured, after }) => measured / ((before + after) / 2));
    const ours = median(turns.map(({ measured }) => measured));
    const theirs = median(turns.map(({ before, after }) => (before + after) / 2));
    return {
      subject: `resnet18 on ${device}, batches of ${rows}, ready tensors`,
      compared: "of the raw loop in Python",
      unit: "",
      goal: atLeast(0.95),
      reached: spread(values),
      values,
      behind: `${perSecond(ours)} to ${perSecond(theirs)}`,
      failed: ready.failed,
      cores: canary.shares(),
    };
  } finally {
    await ready.close();
  }
}

/** An engine in which as many items wait as two more batches hold. */
class Fed {
  failed = 0;
  readonly #engine: LocalEngine<Item>;
  readonly #rows: number;
  readonly #items: readonly Readonly<Record<string, Tensor>>[];

  private constructor(engine: LocalEngine<Item>, rows: number) {
    this.#engine = engine;
    this.#rows = rows;
    this.#items = Array.from({ length: rows }, () => ({
      image: tensor(crypto.getRandomValues(new Uint8Array(3 * 224 * 224)), [3, 224, 224]),
    }));
  }

  static async open({ path, device, rows }: { path: string; device: string; rows: number }): Promise<Fed> {
    const weights = { model: path };
    const options = { weights, operators: [], predict: undefined, inputs, outputs, threads: 1, instances: 1 };
    const runners = await openRunners({ ...options, devices: [device] });
    await warmUp({ runners, inputs, item: undefined, maxBatchSize: rows, threads: 1, everySize: device !== "cpu" });
    return new Fed(new LocalEngine<Item>({ runners, inputs, outputs, maxBatchSize: rows, maxQueueDelayMs: 0 }), rows);
  }

  /** Items a second. */
  throughput(seconds: number): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    const begin = performance.now();
    let [waiting, count] = [0, 0];
    const isOver = () => performance.now() - begin > seconds * 1000;
    const lane = {};
    const submit = (index: number) => {
      waiting += 1;
      this.#engine.submit({ lane, index }, this.#items[index % this.#rows] ?? {});
    };
    const ended = ({ index }: Item) => {
      waiting -= 1;
      count += 1;
      if (!isOver()) submit(index);
      else if (waiting === 0) resolve((1000 * count) / (performance.now() - begin));
    };
    this.#engine.listener = {
      dispatched() {},
      finished: ended,
      failed: (item) => {
        this.failed += 1;
        ended(item);
      },
    };
    for (let index = 0; index < 4 * this.#rows; index++) submit(index);
    return promise;
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}
