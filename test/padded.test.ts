/** Batches of items with padded dimensions: items of similar length share a batch. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { shapeKey } from "../src/engine/item-check.ts";
import { seeded } from "./helpers/loads.ts";
import { type Item, Simulation } from "./helpers/simulation.ts";

const lengthOf = ({ length = 0 }: Item) => length;
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

/** Share of padding in all batches so far. */
function waste({ batches }: Simulation): number {
  const padded = batches.map(({ items }) => items.length * Math.max(...items.map(lengthOf)));
  return 1 - sum(batches.flatMap(({ items }) => items.map(lengthOf))) / sum(padded);
}

describe("with two padded dimensions", () => {
  /** Adds items with these numbers of [rows, columns], for a model with one tensor of 4-byte numbers. */
  function addGrids(simulation: Simulation, grids: readonly (readonly [number, number])[]): Item[] {
    const items = grids.map(([rows, columns]) => ({
      ...shapeKey({ free: new Map(), padded: new Map(Object.entries({ rows, columns })) }),
      tensors: [{ dtype: "float32" as const, shape: [rows, columns], data: new Float32Array(0) }],
    }));
    return simulation.add({}, items);
  }
  const sizesOf = ({ padded }: Item) => [...padded.values()];
  const settings = fc.record({
    maxBatchSize: fc.integer({ min: 1, max: 8 }),
    runners: fc.integer({ min: 1, max: 3 }),
    maxQueueDelayMs: fc.constantFrom(0, 5, 50),
  });
  const size = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.constantFrom(1, 7500, 100_000));

  test("wide and high items never share a batch, even if their areas are equal", async () => {
    const simulation = new Simulation({ maxBatchSize: 8 });
    addGrids(simulation, [[9, 9]]);
    addGrids(simulation, [
      [1, 7500],
      [7500, 1],
      [1, 7400],
      [7400, 1],
    ]);
    await simulation.clock.drain();
    const batches = simulation.batches.slice(1).map(({ items }) => items.map((item) => sizesOf(item).join("x")));
    expect(batches).toEqual([
      ["1x7500", "1x7400"],
      ["7500x1", "7400x1"],
    ]);
  });

  test("items of a batch have similar sizes, the bytes of a batch have a limit, and no item is lost", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(size, size), { minLength: 1, maxLength: 60 }),
        settings,
        async (grids, options) => {
          const simulation = new Simulation(options);
          const items = addGrids(simulation, grids);
          await simulation.clock.drain();
          expect(simulation.done.toSorted((a, b) => a - b)).toEqual(items.map(({ id }) => id));
          for (const { items: batch } of simulation.batches) {
            const most = [0, 1].map((dim) => Math.max(...batch.map((item) => sizesOf(item)[dim] ?? 0)));
            const least = [0, 1].map((dim) => Math.min(...batch.map((item) => sizesOf(item)[dim] ?? 0)));
            if (batch.length === 1) continue;
            for (const dim of [0, 1]) expect(most[dim]).toBeLessThan(Math.SQRT2 * (least[dim] ?? 0) + 7);
            expect(batch.length * 4 * (most[0] ?? 0) * (most[1] ?? 0)).toBeLessThanOrEqual(256 * 2 ** 20);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  test("a batch is as large as its limit of bytes allows, and a single item always runs", async () => {
    const simulation = new Simulation({ maxBatchSize: 8 });
    addGrids(simulation, [[1, 1]]);
    // Five items of 100 MB, then one of 400 MB, since an element has 4 bytes.
    addGrids(simulation, [...Array<[number, number]>(5).fill([5000, 5000]), [10_000, 10_000]]);
    await simulation.clock.drain();
    expect(simulation.batches.map(({ items }) => items.length)).toEqual([1, 2, 2, 1, 1]);
  });
});

describe("padding", () => {
  const loads = {
    "of any length from 1 to 256": (next: () => number) => 1 + Math.floor(256 * next()),
    "of mostly short and some long texts": (next: () => number) => Math.round(4 * 64 ** (next() ** 2)),
  };
  /** Adds items over two seconds so that `count` always wait. @param draw makes a random length */
  async function keepWaiting(simulation: Simulation, count: number, draw: (next: () => number) => number) {
    const next = seeded(1);
    const lanes = Array.from({ length: 8 }, () => ({}));
    let waiting = 0;
    for (let ms = 0; ms < 2000; ms += 10) {
      await simulation.clock.advanceTo(ms);
      while (simulation.batcher.length < count) simulation.add(lanes[waiting++ % lanes.length] ?? {}, [draw(next)]);
    }
    await simulation.clock.drain();
  }

  for (const [name, draw] of Object.entries(loads)) {
    test(`is less than a fifth of the batches for a load ${name} with a few waiting batches`, async () => {
      const simulation = new Simulation({ maxBatchSize: 16 });
      await keepWaiting(simulation, 64, draw);
      expect(waste(simulation)).toBeLessThan(0.2);
    });
  }

  test("is zero if lengths are far apart, or if many items of each length wait", async () => {
    const simulation = new Simulation({ maxBatchSize: 8 });
    simulation.add({}, [1]);
    simulation.add(
      {},
      Array.from({ length: 64 }, (_, i) => [30, 90, 270][i % 3] ?? 0),
    );
    await simulation.clock.drain();
    expect(waste(simulation)).toBe(0);
  });
});
