/** Simulates a server whose clients give up after a while, or send inputs that fail. */
import { spyOn } from "bun:test";
import { type Tensor, tensor } from "../../src/author/tensor.ts";
import { openLocalEngine } from "../../src/engine/remote/local-engine.ts";
import type { Runner } from "../../src/engine/runner.ts";
import type { Sender } from "../../src/pipeline/client.ts";
import { ReadyInputs } from "../../src/pipeline/inputs/input-list.ts";
import { ItemList, type ListItem } from "../../src/pipeline/item-list.ts";
import { Admission } from "../../src/predictions/admission.ts";
import { anyModel, flowOf } from "./held-engine.ts";
import { seeded } from "./loads.ts";
import { nextTurn } from "./loop-turns.ts";
import { info } from "./remote.ts";
import { SimulatedClock } from "./simulation.ts";

export interface Overload {
  readonly maxBatchSize: number;
  /** Milliseconds of a batch, of any size. */
  readonly batchMs: number;
  /** Milliseconds after which a client leaves if it has no answer. */
  readonly patienceMs: number;
  /** Number of requests, as a multiple of what the device can answer. */
  readonly load: number;
  /** Whether requests say how long their clients wait. */
  readonly saysSo?: boolean;
  readonly seconds: number;
  readonly instances?: number;
  readonly seed: number;
}

/**
 * Simulates an overload. @returns the number of answers in time, as a share of the device's capacity, in the second
 * half of the simulated time
 */
export async function goodputOf(overload: Overload): Promise<number> {
  const { maxBatchSize, batchMs, patienceMs, load, saysSo = false, seconds, instances = 1, seed } = overload;
  await using simulated = simulatedFlow({ maxBatchSize, batchMs, instances });
  const { clock, flow } = simulated;
  const limits = { maxQueuedItems: 100_000, maxQueuedBytes: Infinity };
  const admission = new Admission({ queueMs: (client) => flow.waitMs(client), limits });
  const random = seeded(seed);
  const perMs = (instances * maxBatchSize) / batchMs;
  const endMs = 1000 * seconds;
  let good = 0;
  const come = () => {
    try {
      admission.check({ bytes: 0, waitMs: saysSo ? patienceMs : 600_000 }, 1, 600_000);
    } catch {
      return;
    }
    const end = () => {
      stopWaiting();
      flow.end(list);
    };
    const succeeded = () => {
      if (clock.now() > endMs / 2) good += 1;
      end();
    };
    const receiver = { succeeded, failed: end, expired: end };
    const list = new ItemList(new ReadyInputs([{ x: 1 }]), receiver);
    const stopWaiting = clock.after(patienceMs, () => flow.end(list));
    flow.run(list);
  };
  for (let atMs = 0; atMs < endMs; atMs += -Math.log(1 - random()) / (load * perMs)) {
    await advance(clock, atMs);
    come();
  }
  return good / ((endMs / 2) * perMs);
}

export interface Connections {
  /** Connections of a client whose inputs succeed. Each sends the next input when it has the output. */
  readonly good: number;
  /** Clients at another address, with a connection each, whose inputs fail every batch that they are in. */
  readonly bad: number;
  readonly seconds: number;
}

/** Simulates a device that runs 16 items in 10 ms. @returns the milliseconds of each answer to the good client */
export async function latenciesOf({ good, bad, seconds }: Connections): Promise<readonly number[]> {
  await using simulated = simulatedFlow({ maxBatchSize: 16, batchMs: 10, instances: 1 });
  const { clock, flow } = simulated;
  const times: number[] = [];
  const send = (client: Sender, x: number) => {
    const sentMs = clock.now();
    const end = () => {
      flow.end(list);
      if (x > 0) times.push(clock.now() - sentMs);
      if (clock.now() < 1000 * seconds) send(client, x);
    };
    const list = new ItemList(new ReadyInputs([{ x }]), { succeeded: end, failed: end }, { sender: client });
    flow.run(list);
  };
  for (let i = 0; i < good; i++) send({ address: "10.0.0.1", name: `${i}` }, 1);
  for (let i = 0; i < bad; i++) send({ address: "10.0.0.2", name: `${i}` }, -1);
  for (let ms = 1; ms <= 1000 * seconds; ms++) await advance(clock, ms);
  return times;
}

function simulatedFlow({
  maxBatchSize,
  batchMs,
  instances,
}: Required<Pick<Overload, "maxBatchSize" | "batchMs" | "instances">>) {
  const owned = new AsyncDisposableStack();
  const clock = new SimulatedClock();
  owned.use(spyOn(performance, "now").mockImplementation(() => clock.now()));
  const runners = Array.from({ length: instances }, () => deviceOf(clock, batchMs));
  const { engine, close } = openLocalEngine<ListItem>({
    info,
    ...anyModel.tensors,
    runners,
    maxBatchSize,
    maxQueueDelayMs: 0,
    clock,
  });
  owned.defer(close);
  const flow = owned.use(flowOf(anyModel, engine));
  return { clock, flow, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function deviceOf(clock: SimulatedClock, batchMs: number): Runner {
  let freeAtMs = 0;
  return {
    run: (items) => {
      freeAtMs = Math.max(freeAtMs, clock.now()) + batchMs;
      const rows = tensor(new Float32Array(items.length), [items.length]);
      const isBad = items.some(([x]) => Number(x?.data[0]) < 0);
      const { promise, resolve, reject } = Promise.withResolvers<readonly Tensor[]>();
      clock.after(freeAtMs - clock.now(), () => (isBad ? reject(new Error("bad input")) : resolve([rows])));
      return promise;
    },
    settle: () => {},
    setThreads: async () => {},
    dispose: async () => {},
  };
}

/** Advances the clock from event to event. Promises settle after each event. */
async function advance(clock: SimulatedClock, atMs: number): Promise<void> {
  while (clock.nextAtMs <= atMs) {
    await clock.advanceTo(clock.nextAtMs);
    await turn();
  }
  await clock.advanceTo(atMs);
  await turn();
}

/** Lets items pass from the flow to a batch: both ends of the engine act at the end of a turn of the event loop. */
async function turn(): Promise<void> {
  for (let i = 0; i < 6; i++) await nextTurn();
}
