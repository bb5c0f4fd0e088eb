import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Fifo } from "../src/collections/fifo.ts";
import { Batcher } from "../src/engine/batcher.ts";
import type { Queued } from "../src/engine/fair-queue.ts";
import { LeadTime } from "../src/engine/lead-time.ts";
import { QueueDelay } from "../src/engine/queue-delay.ts";
import { cpuMs } from "./helpers/cpu-time.ts";
import { type Item, type SimulatedRunner, Simulation } from "./helpers/simulation.ts";

/** Loads of any kind: when items of which prediction and shape become ready. */
const arrivals = fc.array(
  fc.record({
    atMs: fc.integer({ min: 0, max: 200 }),
    lane: fc.integer({ min: 0, max: 5 }),
    key: fc.constantFrom("", "a", "b"),
    count: fc.integer({ min: 1, max: 20 }),
    isBad: fc.boolean(),
    isAlone: fc.constant(false),
  }),
  { maxLength: 30 },
);
/** The same, in which some items were running when a process died. */
const suspects = arrivals.chain((load) =>
  fc
    .array(fc.boolean(), { minLength: load.length, maxLength: load.length })
    .map((flags) => load.map((arrival, i) => ({ ...arrival, isAlone: flags[i] ?? false }))),
);
const settings = fc.record({
  maxBatchSize: fc.integer({ min: 1, max: 8 }),
  runners: fc.integer({ min: 1, max: 3 }),
  express: fc.boolean(),
  maxQueueDelayMs: fc.constantFrom(0, 0, 5, 50),
});

async function play(
  options: { maxBatchSize: number; runners: number; express?: boolean; maxQueueDelayMs: number },
  load: readonly { atMs: number; lane: number; key: string; count: number; isBad: boolean; isAlone: boolean }[],
) {
  const simulation = new Simulation(options);
  const lanes = Array.from({ length: 6 }, () => ({}));
  const items: Item[] = [];
  for (const { atMs, lane, key, count, isBad, isAlone } of load.toSorted((a, b) => a.atMs - b.atMs)) {
    await simulation.clock.advanceTo(atMs);
    items.push(...simulation.add(lanes[lane] ?? {}, count, { key, isBad: isBad && count === 1, isAlone }));
  }
  await simulation.clock.drain();
  return { simulation, items };
}

describe("for any load", () => {
  test("nothing is lost and nothing is told twice", async () => {
    await fc.assert(
      fc.asyncProperty(settings, fc.oneof(arrivals, suspects), async (options, load) => {
        const { simulation, items } = await play(options, load);
        expect([...simulation.done, ...simulation.lost].sort((a, b) => a - b)).toEqual(items.map(({ id }) => id));
        expect(simulation.lost.toSorted((a, b) => a - b)).toEqual(
          items.filter(({ isBad }) => isBad).map(({ id }) => id),
        );
        expect(simulation.batcher.length).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  test("no batch is beyond the maximum or mixes shapes", async () => {
    await fc.assert(
      fc.asyncProperty(settings, arrivals, async (options, load) => {
        const { simulation } = await play(options, load);
        for (const { items } of simulation.batches) {
          expect(items.length).toBeLessThanOrEqual(options.maxBatchSize);
          expect(new Set(items.map(({ key }) => key)).size).toBe(1);
        }
      }),
      { numRuns: 100 },
    );
  });

  test("an item that is alone runs in a batch of its own, with nothing given to any runner from when it is ready until it ends", async () => {
    await fc.assert(
      fc.asyncProperty(settings, suspects, async (options, load) => {
        const { simulation } = await play(options, load);
        const { batches } = simulation;
        for (const alone of batches.filter(({ items }) => items.some(({ isAlone }) => isAlone))) {
          expect(alone.items.length).toBe(1);
          for (const other of batches.filter((batch) => batch !== alone)) {
            expect(other.endedAtMs <= alone.startedAtMs || other.givenAtMs >= alone.endedAtMs).toBe(true);
            const readyAtMs = alone.items[0]?.readyAtMs ?? 0;
            const isAhead = other.givenAtMs > readyAtMs && other.givenAtMs < alone.givenAtMs;
            expect(isAhead && !other.items[0]?.isAlone).toBe(false);
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  test("items of one prediction and shape are dispatched in order", async () => {
    await fc.assert(
      fc.asyncProperty(settings, arrivals, async (options, load) => {
        const good = load.map((arrival) => ({ ...arrival, isBad: false }));
        const { simulation } = await play({ ...options, runners: 1 }, good);
        const sequences = Map.groupBy(
          simulation.batches.flatMap(({ items }) => items),
          ({ lane, key }) => `${identity(lane)} ${key}`,
        );
        for (const sequence of sequences.values()) {
          expect(sequence.map(({ id }) => id)).toEqual(sequence.map(({ id }) => id).toSorted((a, b) => a - b));
        }
      }),
      { numRuns: 100 },
    );
  });

  test("without a delay no runner is idle while items are ready", async () => {
    await fc.assert(
      fc.asyncProperty(settings, arrivals, async (options, load) => {
        const { simulation, items } = await play({ ...options, maxQueueDelayMs: 0 }, load);
        // Lanes that fail wait a little for others, which may come again.
        const failing = new Set(items.filter(({ isBad }) => isBad).map(({ lane }) => lane));
        const good = items.filter(({ lane }) => !failing.has(lane));
        // An item of a batch that failed begins again with its half: what counts is its first begin.
        const begins = simulation.batches
          .toReversed()
          .flatMap((batch) => batch.items.map(({ id }) => [id, batch.startedAtMs] as const));
        const startedAtMs = new Map(begins);
        for (const runner of simulation.runners) {
          for (const [fromMs, untilMs] of idleTimes(runner)) {
            // Ready before or within the idle time, and begun only after it: that runner should have taken it.
            const shutOut = good.filter(
              ({ id, readyAtMs }) =>
                Math.max(readyAtMs, fromMs) < untilMs && (startedAtMs.get(id) ?? 0) > Math.max(readyAtMs, fromMs),
            );
            expect(shutOut.filter(({ id }) => (startedAtMs.get(id) ?? 0) >= untilMs)).toEqual([]);
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  test("with a delay no item waits longer than that while a runner is free", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), arrivals, async (maxBatchSize, load) => {
        const good = load.map((arrival) => ({ ...arrival, isBad: false }));
        const simulation = (await play({ maxBatchSize, runners: 60, maxQueueDelayMs: 20 }, good)).simulation;
        for (const { items, startedAtMs } of simulation.batches) {
          expect(startedAtMs - Math.min(...items.map(({ readyAtMs }) => readyAtMs))).toBeLessThanOrEqual(20);
        }
      }),
      { numRuns: 100 },
    );
  });
});

test("a lone item among 10,000 of another prediction waits at most two batches", async () => {
  const simulation = new Simulation({ maxBatchSize: 16 });
  simulation.add({}, 10_000);
  await simulation.clock.advanceTo(25);
  const [lone] = simulation.add({}, 1);
  await simulation.clock.drain();
  const batch = simulation.batches.findIndex(({ items }) => items.some(({ id }) => id === lone?.id));
  const running = simulation.batches.findIndex(({ endedAtMs }) => endedAtMs > 25);
  expect(batch - running).toBeLessThanOrEqual(2);
});

test("a lone item of another shape is not shut out by a stream of full batches", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 1000, { key: "a" });
  await simulation.clock.advanceTo(25);
  const [lone] = simulation.add({}, 1, { key: "b" });
  await simulation.clock.drain();
  expect(simulation.finishedAtMs.get(lone?.id ?? -1)).toBeLessThanOrEqual(25 + 4 * 10);
});

test("predictions that wait together share a batch in turn", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  const lanes = [{}, {}];
  simulation.add({}, 1);
  for (const lane of lanes) simulation.add(lane, 2);
  await simulation.clock.drain();
  const [, second] = simulation.batches;
  expect(second?.items.map(({ lane }) => lanes.indexOf(lane))).toEqual([0, 1, 0, 1]);
});

test("an idle runner takes a single item at once", async () => {
  const simulation = new Simulation({ maxBatchSize: 64 });
  simulation.add({}, 1);
  expect(simulation.batches.map(({ startedAtMs }) => startedAtMs)).toEqual([0]);
});

test("while a runner is busy only a full batch is committed ahead, and only one", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 1);
  simulation.add({}, 3);
  expect(simulation.batches.length).toBe(1);
  simulation.add({}, 9);
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 4]);
});

test("a runner that works for long is given its next batch late, for those who come meanwhile, and yet before it is idle", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => 100 });
  const [many, late] = [{}, {}];
  simulation.add(many, 20);
  await simulation.clock.advanceTo(270);
  simulation.add(late, 1);
  await simulation.clock.drain();
  const [, , , next] = simulation.batches;
  expect(next?.items.some(({ lane }) => lane === late)).toBe(true);
  expect(simulation.batches.map(({ startedAtMs }) => startedAtMs)).toEqual([0, 100, 200, 300, 400, 500]);
  expect(next?.givenAtMs).toBeLessThan(300);
});

test("one that comes while a batch of a loop with time to spare runs is in the next, up to 2 ms before that begins", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => 15 });
  const [many, late] = [{}, {}];
  simulation.add(many, 40);
  await simulation.clock.advanceTo(57);
  simulation.add(late, 1);
  await simulation.clock.drain();
  expect(simulation.batches[4]?.items.some(({ lane }) => lane === late)).toBe(true);
  expect(simulation.batches.map(({ startedAtMs }) => startedAtMs)).toEqual(
    Array.from({ length: 11 }, (_, i) => 15 * i),
  );
});

test.each([4, 7, 9])("a runner is not idle though the loop turns only every %d ms", async (turnMs) => {
  const simulation = new Simulation({ maxBatchSize: 4, durationMs: () => 15, turnMs });
  simulation.add({}, 400);
  await simulation.clock.drain();
  const idle = simulation.batches.map(
    ({ startedAtMs }, i) => startedAtMs - (simulation.batches[i - 1]?.endedAtMs ?? 0),
  );
  // What the first ones show is known for those that follow.
  expect(idle.slice(10).filter((ms) => ms > 0)).toEqual([]);
});

test("an item's delay counts from when it became ready, and a full batch does not wait for it", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, maxQueueDelayMs: 50 });
  simulation.add({}, 1);
  await simulation.clock.advanceTo(30);
  simulation.add({}, 1);
  await simulation.clock.advanceTo(49);
  expect(simulation.batches.length).toBe(0);
  await simulation.clock.advanceTo(50);
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([2]);
  await simulation.clock.advanceTo(100);
  simulation.add({}, 4);
  expect(simulation.batches.at(-1)?.startedAtMs).toBe(100);
});

test("when no more items will come, those that wait for others are dispatched at once, and so are later ones", async () => {
  const simulation = new Simulation({ maxBatchSize: 4, maxQueueDelayMs: 60_000 });
  simulation.add({}, 2);
  expect(simulation.batches.length).toBe(0);
  simulation.batcher.hurry();
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([2]);
  await simulation.clock.drain();
  simulation.add({}, 1);
  expect(simulation.batches.at(-1)?.items.length).toBe(1);
  await simulation.clock.drain();
  expect(simulation.done).toEqual([0, 1, 2]);
});

test("a batch that fails is halved until the bad item fails alone", async () => {
  const simulation = new Simulation({ maxBatchSize: 8 });
  simulation.add({}, 1);
  const lane = {};
  simulation.add(lane, 3);
  const [bad] = simulation.add(lane, 1, { isBad: true });
  simulation.add(lane, 3);
  await simulation.clock.drain();
  expect(simulation.lost).toEqual([bad?.id ?? -1]);
  expect(simulation.done.length).toBe(7);
  // The batch of seven, then halves down to the bad one: no more than two runs for each halving.
  expect(simulation.batches.length).toBeLessThanOrEqual(2 + 2 * 3);
});

test("a batch that fails is halved and ends, however many others wait", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  simulation.add({}, 1);
  const lane = {};
  const good = simulation.add(lane, 3);
  const [bad] = simulation.add(lane, 1, { isBad: true });
  for (let i = 0; i < 200; i++) simulation.add({}, 4);
  await simulation.clock.advanceTo(500);
  expect(simulation.lost).toEqual([bad?.id ?? -1]);
  for (const { id } of good) expect(simulation.done).toContain(id);
});

test("of a batch of many predictions the bad one is found in log2 runs, and the others are not parted further than that takes", async () => {
  const simulation = new Simulation({ maxBatchSize: 64 });
  simulation.add({}, 1);
  const lanes = Array.from({ length: 16 }, () => ({}));
  const items = lanes.flatMap((lane, i) => [
    ...simulation.add(lane, 3),
    ...simulation.add(lane, 1, { isBad: i === 5 }),
  ]);
  await simulation.clock.drain();
  expect(simulation.lost).toEqual(items.filter(({ isBad }) => isBad).map(({ id }) => id));
  expect(simulation.done.length).toBe(64);
  // The first item, the whole, four halvings among predictions and two within one.
  expect(simulation.batches.length).toBe(2 + 2 * 4 + 2 * 2);
  const parts = simulation.batches.slice(2, 2 + 2 * 4).map((batch) => batch.items);
  // Among predictions every part has all four items of each.
  for (const part of parts) expect(part.length).toBe(4 * new Set(part.map(({ lane }) => lane)).size);
});

test("items of a great many predictions that fail come to their ends one after the other, however many wait behind them", async () => {
  const simulation = new Simulation({ maxBatchSize: 16 });
  for (let i = 0; i < 400; i++) simulation.add({}, 4, { isBad: true });
  await simulation.clock.advanceTo(2000);
  // A batch of so many predictions takes 31 runs until each of its items is alone, and two batches are parted at a time.
  expect(simulation.batches.length).toBeLessThanOrEqual(202);
  expect(simulation.lost.length).toBeGreaterThan(200 * (16 / 31) - 2 * 16);
});

test("predictions that fail go last, with others' turns between, and come to their end", async () => {
  const simulation = new Simulation({ maxBatchSize: 8 });
  simulation.add({}, 1);
  const failing = [{}, {}, {}, {}];
  for (const lane of failing) simulation.add(lane, 20, { isBad: true });
  const good: Item[] = [];
  for (let i = 0; i < 300; i++) good.push(...simulation.add({}, 8));
  await simulation.clock.drain();
  expect(simulation.lost.length).toBe(80);
  const isLate = simulation.batches.map(({ items }) => items.length < 8 && items.every(({ isBad }) => isBad));
  const lateAt = isLate.flatMap((late, i) => (late ? [i] : []));
  const lastGood = simulation.batches.findLastIndex(({ items }) => items.some(({ isBad }) => !isBad));
  // Until it is known which predictions fail, their batches are parted at once: that is a matter of a few runs.
  const gaps = lateAt.slice(1).map((at, i) => at - (lateAt[i] ?? 0));
  expect(
    gaps
      .slice(12)
      .filter((_, i) => (lateAt[i + 13] ?? 0) < lastGood)
      .every((gap) => gap > 8),
  ).toBe(true);
  expect(lateAt.filter((at) => at < lastGood).length).toBeGreaterThan(20);
  expect(simulation.done.length).toBe(good.length + 1);
});

test("a batch that did not fit into memory is halved by size, whosever its items are", async () => {
  const simulation = new Simulation({ maxBatchSize: 8, fits: 4 });
  simulation.add({}, 1);
  simulation.add({}, 7);
  simulation.add({}, 1);
  await simulation.clock.drain();
  expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 8, 4, 4]);
  expect(simulation.shrinks).toEqual([4]);
});

describe("an item that was running when a process died", () => {
  test("runs when all runners are idle, one by one, before all others", async () => {
    const simulation = new Simulation({ maxBatchSize: 4, runners: 2 });
    const lane = {};
    simulation.add({}, 16);
    const [one, two] = simulation.add(lane, 2, { isAlone: true });
    expect(simulation.batcher.isSaturated).toBe(true);
    simulation.add({}, 16);
    await simulation.clock.drain();
    const begins = simulation.batches.map(({ items, startedAtMs }) => [startedAtMs, items.length]);
    // Two runners run one batch each and have been given another.
    expect(begins.slice(0, 8)).toEqual([
      [0, 4],
      [0, 4],
      [10, 4],
      [10, 4],
      [20, 1],
      [30, 1],
      [40, 4],
      [40, 4],
    ]);
    expect(simulation.done.slice(16, 18)).toEqual([one?.id ?? -1, two?.id ?? -1]);
  });

  test("is dispatched when the ends of all before it have been told: it may end the process", async () => {
    const simulation = new Simulation({ maxBatchSize: 4 });
    simulation.add({}, 2);
    simulation.add({}, 1, { isAlone: true });
    simulation.add({}, 1, { isAlone: true, isBad: true });
    simulation.add({}, 1, { isAlone: true });
    await simulation.clock.drain();
    expect(simulation.toldBefore).toEqual([0, 2, 3, 4]);
  });

  test("counts as waiting, and leaves with its prediction", async () => {
    const simulation = new Simulation({ maxBatchSize: 4 });
    const [lane, other] = [{}, {}];
    simulation.add({}, 1);
    simulation.add(lane, 2, { isAlone: true });
    simulation.add(other, 1);
    expect(simulation.batcher.length).toBe(3);
    expect(simulation.batcher.remove(lane).length).toBe(2);
    expect(simulation.batcher.length).toBe(1);
    await simulation.clock.drain();
    expect(simulation.done).toEqual([0, 3]);
  });

  test("that leaves while it waits gives the runners back at once", () => {
    const simulation = new Simulation({ maxBatchSize: 4, runners: 2 });
    const lane = {};
    simulation.add({}, 1);
    simulation.add(lane, 1, { isAlone: true });
    simulation.add({}, 2);
    expect(simulation.batches.length).toBe(1);
    simulation.batcher.remove(lane);
    expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 2]);
  });

  test("fails alone, and the others go on", async () => {
    const simulation = new Simulation({ maxBatchSize: 4 });
    simulation.add({}, 1, { isAlone: true, isBad: true });
    simulation.add({}, 3);
    await simulation.clock.drain();
    expect([simulation.lost, simulation.done]).toEqual([[0], [1, 2, 3]]);
    expect(simulation.batches.length).toBe(2);
  });
});

test("what was taken from a queue is not held by it", async () => {
  const queue = new Fifo<object>();
  for (let i = 0; i < 31; i++) queue.push({});
  const taken = Array.from({ length: 30 }, () => new WeakRef(queue.shift() ?? {}));
  // A WeakRef holds what it refers to until the event loop has turned.
  await new Promise((resolve) => setImmediate(resolve));
  Bun.gc(true);
  // The stack may still name one or the other.
  expect(taken.filter((each) => each.deref() !== undefined).length).toBeLessThan(5);
  expect(queue.rest().length).toBe(1);
});

test("a prediction that is removed leaves its neighbours in the batch untouched", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  const [removed, kept] = [{}, {}];
  simulation.add({}, 1);
  simulation.add(removed, 5);
  const items = simulation.add(kept, 1);
  expect(
    simulation.batcher.remove(removed).length +
      simulation.batches.flatMap((batch) => batch.items).filter(({ lane }) => lane === removed).length,
  ).toBe(5);
  await simulation.clock.drain();
  expect(simulation.done).toContain(items[0]?.id ?? -1);
  expect(simulation.batcher.length).toBe(0);
});

test("halves of a batch that failed count as waiting until they run", async () => {
  const simulation = new Simulation({ maxBatchSize: 4 });
  const lane = {};
  const items = [...Array(3)].map((_, id) => ({ lane, id, key: "", readyAtMs: 0, isBad: id === 2 }));
  for (const item of items) simulation.batcher.add(item);
  simulation.batcher.pump();
  expect(simulation.batcher.length).toBe(0);
  await simulation.clock.advanceTo(10);
  // The first half, of one item, runs; the second waits for the runner.
  expect(simulation.batcher.length).toBe(2);
  await simulation.clock.drain();
  expect(simulation.batcher.length).toBe(0);
});

test("an item costs no more among 100,000 than among 1,000", () => {
  const cost = (count: number) => {
    const simulation = new Simulation({ maxBatchSize: count / 2 });
    const lane = {};
    const ms = cpuMs(() => {
      for (let i = 0; i < count; i++) simulation.batcher.add({ lane, id: i, key: "", readyAtMs: 0 });
      simulation.batcher.pump();
    });
    return ms / count;
  };
  cost(10_000);
  expect(cost(100_000)).toBeLessThan(10 * cost(1000) + 0.005);
});

/** The spans in which a runner had nothing to do. */
function idleTimes({ batches }: SimulatedRunner): [number, number][] {
  const ends = [0, ...batches.map(({ endedAtMs }) => endedAtMs)];
  const starts = [...batches.map(({ startedAtMs }) => startedAtMs), Infinity];
  return ends.map((end, i): [number, number] => [end, starts[i] ?? Infinity]).filter(([from, until]) => from < until);
}

const identities = new WeakMap<object, number>();
let nextIdentity = 0;
function identity(object: object): number {
  const known = identities.get(object);
  if (known !== undefined) return known;
  identities.set(object, nextIdentity);
  return nextIdentity++;
}

test("an item that is alone waits until what was told before it is beyond the process, and the runners with it", () => {
  let isHeard = false;
  const run: string[] = [];
  const batcher = new Batcher<Queued & { readonly name: string }, void>({
    runners: [
      (items) => {
        run.push(items.map(({ name }) => name).join());
        return new Promise(() => {});
      },
    ],
    maxBatchSize: 4,
    policy: new QueueDelay(0),
    clock: { now: () => 0, after: () => () => {} },
    listener: { dispatched() {}, finished() {}, failed() {}, shrunk() {} },
    isHeard: () => isHeard,
    isWorthHalving: () => false,
    isOutOfMemory: () => false,
  });
  const item = (name: string, isAlone: boolean) => ({ lane: {}, key: "", readyAtMs: 0, name, isAlone });
  batcher.add(item("suspect", true));
  batcher.add(item("other", false));
  batcher.pump();
  expect(run).toEqual([]);
  isHeard = true;
  batcher.pump();
  expect(run).toEqual(["suspect"]);
});

describe("a batch says why it was sent when it was:", () => {
  test("for a runner that was idle, for being full, or for its oldest item's delay", async () => {
    const simulation = new Simulation({ maxBatchSize: 2, maxQueueDelayMs: 5 });
    simulation.add({}, 2);
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.causes).toEqual(["full", "delay"]);
    const eager = new Simulation({ maxBatchSize: 2 });
    eager.add({}, 1);
    await eager.clock.drain();
    expect(eager.causes).toEqual(["idle"]);
  });

  test("for the server's stop", async () => {
    const simulation = new Simulation({ maxBatchSize: 2, maxQueueDelayMs: 5 });
    simulation.add({}, 1);
    simulation.batcher.hurry();
    expect(simulation.causes).toEqual(["drain"]);
    await simulation.clock.drain();
  });

  test("as a part of one that failed, or as an item by itself", async () => {
    const simulation = new Simulation({ maxBatchSize: 2 });
    simulation.add({}, 1);
    simulation.add({}, 1, { isBad: true });
    simulation.add({}, 1);
    await simulation.clock.drain();
    expect(simulation.causes).toEqual(["idle", "full", "part", "part"]);
    simulation.add({}, 1, { isAlone: true });
    await simulation.clock.drain();
    expect(simulation.causes.at(-1)).toBe("alone");
  });
});

test("the lead is forgotten two seconds after the loop was busy", () => {
  const lead = new LeadTime();
  lead.woke(100, 109);
  expect(lead.ms(1000)).toBe(11);
  lead.ran(12, 15, 1100);
  expect([1500, 2500, 4500].map((nowMs) => lead.ms(nowMs))).toEqual([14, 5, 2]);
});
