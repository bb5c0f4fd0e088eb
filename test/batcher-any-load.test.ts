/** Properties of the batching rule that hold under random loads. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Item, type SimulatedRunner, Simulation } from "./helpers/simulation.ts";

/**
 * Random loads. Items arrive at random times; they have random predictions ("lanes") and shapes ("keys").
 * @param sizes number of items of an arrival, or the padded length of each
 */
const loadsOf = <S extends number | readonly number[]>(sizes: fc.Arbitrary<S>) =>
  fc.array(
    fc.record({
      atMs: fc.integer({ min: 0, max: 200 }),
      lane: fc.integer({ min: 0, max: 5 }),
      key: fc.constantFrom("", "a", "b"),
      sizes,
      isBad: fc.boolean(),
      isAlone: fc.constant(false),
    }),
    { maxLength: 30 },
  );
const arrivals = loadsOf(fc.integer({ min: 1, max: 20 }));
const length = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constantFrom(0, 1, 5, 100_000));
const padded = loadsOf(fc.array(length, { minLength: 1, maxLength: 20 }));
/** The same random loads. Some items were running when an engine process died, so they must run alone. */
const suspects = arrivals.chain((load) =>
  fc
    .array(fc.boolean(), { minLength: load.length, maxLength: load.length })
    .map((flags) => load.map((arrival, i) => ({ ...arrival, isAlone: flags[i] ?? false }))),
);
const settings = fc.record({
  maxBatchSize: fc.integer({ min: 1, max: 8 }),
  runners: fc.integer({ min: 1, max: 3 }),
  maxQueueDelayMs: fc.constantFrom(0, 0, 5, 50),
});

interface Arrival {
  readonly atMs: number;
  readonly lane: number;
  readonly key: string;
  readonly sizes: number | readonly number[];
  readonly isBad: boolean;
  readonly isAlone: boolean;
}

async function play(
  options: { maxBatchSize: number; runners: number; maxQueueDelayMs: number },
  load: readonly Arrival[],
) {
  const simulation = new Simulation(options);
  const lanes = Array.from({ length: 6 }, () => ({}));
  const items: Item[] = [];
  for (const { atMs, lane, key, sizes, isBad, isAlone } of load.toSorted((a, b) => a.atMs - b.atMs)) {
    await simulation.clock.advanceTo(atMs);
    const isOne = (typeof sizes === "number" ? sizes : sizes.length) === 1;
    items.push(...simulation.add(lanes[lane] ?? {}, sizes, { key, isBad: isBad && isOne, isAlone }));
  }
  await simulation.clock.drain();
  return { simulation, items };
}

describe.each([
  ["one size", fc.oneof(arrivals, suspects)],
  ["padded lengths", padded],
] as const)("for any load of items of %s", (_, loads: fc.Arbitrary<readonly Arrival[]>) => {
  test("no item is lost, and no item is reported twice", async () => {
    await fc.assert(
      fc.asyncProperty(settings, loads, async (options, load) => {
        const { simulation, items } = await play(options, load);
        expect([...simulation.done, ...simulation.lost].sort((a, b) => a - b)).toEqual(items.map(({ id }) => id));
        const bad = items.filter(({ isBad }) => isBad).map(({ id }) => id);
        expect(simulation.lost.toSorted((a, b) => a - b)).toEqual(bad);
        expect(simulation.batcher.length).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  test("no batch exceeds the maximum or mixes shapes, and its lengths differ by at most a factor √2 plus 7", async () => {
    await fc.assert(
      fc.asyncProperty(settings, loads, async (options, load) => {
        const { simulation } = await play(options, load);
        for (const { items } of simulation.batches) {
          expect(items.length).toBeLessThanOrEqual(options.maxBatchSize);
          expect(new Set(items.map(({ key }) => key)).size).toBe(1);
          const lengths = items.map(({ length = 0 }) => length);
          if (items.length > 1) expect(Math.max(...lengths)).toBeLessThan(Math.SQRT2 * Math.min(...lengths) + 7);
        }
      }),
      { numRuns: 150 },
    );
  });

  test("items of one prediction, shape and length are dispatched in order", async () => {
    await fc.assert(
      fc.asyncProperty(settings, loads, async (options, load) => {
        const good = load.map((arrival) => ({ ...arrival, isBad: false, isAlone: false }));
        const { simulation, items: all } = await play({ ...options, runners: 1 }, good);
        const lanes = [...new Set(all.map(({ lane }) => lane))];
        const sequences = Map.groupBy(
          simulation.batches.flatMap(({ items }) => items),
          (item) => `${lanes.indexOf(item.lane)} ${item.key} ${item.length}`,
        );
        for (const sequence of sequences.values()) {
          const ids = sequence.map(({ id }) => id);
          expect(ids).toEqual(ids.toSorted((a, b) => a - b));
        }
      }),
      { numRuns: 100 },
    );
  });
});

test("an item that must run alone gets a batch of one; from its readiness to its end, no runner has other work", async () => {
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

test("without a queue delay no runner is idle while items are ready", async () => {
  await fc.assert(
    fc.asyncProperty(settings, arrivals, async (options, load) => {
      const { simulation, items } = await play({ ...options, maxQueueDelayMs: 0 }, load);
      // After a failed batch, the items of its predictions wait briefly, so only the other items count.
      const failing = new Set(items.filter(({ isBad }) => isBad).map(({ lane }) => lane));
      const good = items.filter(({ lane }) => !failing.has(lane));
      // Items of a failed batch run again in its halves, and only the first start counts. A Map keeps the last entry of
      // an item, so the batches are reversed.
      const begins = simulation.batches
        .toReversed()
        .flatMap((batch) => batch.items.map(({ id }) => [id, batch.startedAtMs] as const));
      const startedAtMs = new Map(begins);
      for (const runner of simulation.runners) {
        for (const [fromMs, untilMs] of idleTimes(runner)) {
          // Items that were ready in the idle time but began later: the idle runner should have run them.
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

test("with a queue delay no item waits longer than the delay while a runner is free", async () => {
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

/** Periods of time in which a runner had no batch, as [from, until] in milliseconds. */
function idleTimes({ batches }: SimulatedRunner): [number, number][] {
  const ends = [0, ...batches.map(({ endedAtMs }) => endedAtMs)];
  const starts = [...batches.map(({ startedAtMs }) => startedAtMs), Infinity];
  return ends.map((end, i): [number, number] => [end, starts[i] ?? Infinity]).filter(([from, until]) => from < until);
}
