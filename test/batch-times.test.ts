/** Estimates of batch times: measured and unmeasured sizes, noise, steps, and devices that change. */
import { describe, expect, test } from "bun:test";
import { BatchTimes } from "../src/engine/batch-times.ts";
import { type Curve, seeded } from "./helpers/loads.ts";

const sizesUpTo = (max: number) => Array.from({ length: max }, (_, i) => i + 1);

/** Reports batches of random sizes whose times vary by 10 %. */
function teach(
  times: BatchTimes,
  curve: Curve,
  { sizes, batches, seed = 1 }: { sizes: readonly number[]; batches: number; seed?: number },
) {
  const random = seeded(seed);
  for (let i = 0; i < batches; i++) {
    const size = sizes[Math.floor(random() * sizes.length)] ?? 1;
    times.observe(size, curve(size) * (0.9 + 0.2 * random()));
  }
}

/** Largest relative error of the estimates for the sizes. */
function error(times: BatchTimes, curve: Curve, sizes: readonly number[]): number {
  return Math.max(...sizes.map((size) => Math.abs(times.ms(size) / curve(size) - 1)));
}

const linear: Curve = (size) => 8 + 0.5 * size;

test("nothing is said of a device of which nothing is known", () => {
  expect(new BatchTimes().ms(4)).toBe(0);
});

describe("times are learned to a few hundredths", () => {
  const curves: Readonly<Record<string, Curve>> = {
    linear,
    sublinear: (size) => 4 + 2 * Math.sqrt(size),
    stepped: (size) => 4 + 6 * Math.ceil(size / 16),
  };
  test.each(Object.entries(curves))("of a %s curve", (_, curve) => {
    const times = new BatchTimes();
    teach(times, curve, { sizes: sizesUpTo(64), batches: 3000 });
    expect(error(times, curve, sizesUpTo(64))).toBeLessThan(0.06);
  });
});

test("a size that never ran has the time between its neighbours', and a larger one than any its share of the largest", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: [1, 20, 40], batches: 500 });
  for (const size of [10, 30]) expect(times.ms(size) / linear(size)).toBeWithin(0.95, 1.05);
  expect(times.ms(80) / times.ms(40)).toBeCloseTo(2);
});

test("a larger batch is never said to take less time", () => {
  const times = new BatchTimes();
  teach(times, () => 10, { sizes: sizesUpTo(200), batches: 400 });
  const ms = sizesUpTo(220).map((size) => times.ms(size));
  expect(ms).toEqual(ms.toSorted((a, b) => a - b));
});

test.each([3, 1 / 3])(
  "a device that takes %d times as long is known after some dozens of batches, in sizes that did not run since too",
  (factor) => {
    const times = new BatchTimes();
    teach(times, linear, { sizes: sizesUpTo(64), batches: 2000 });
    const changed: Curve = (size) => factor * linear(size);
    teach(times, changed, { sizes: [8, 9, 10], batches: 60 });
    expect(error(times, changed, [8, 9, 10])).toBeLessThan(0.1);
    expect(error(times, changed, [1, 32, 64])).toBeLessThan(0.4);
  },
);

test("one batch that took a hundred times as long, for others had the machine, changes little", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: sizesUpTo(32), batches: 1000 });
  times.observe(16, 100 * linear(16));
  expect(error(times, linear, sizesUpTo(32))).toBeLessThan(0.15);
});

test("nearly every batch ends within the sure time, which is not far above the expected one", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: sizesUpTo(32), batches: 2000 });
  const random = seeded(5);
  const late = Array.from({ length: 2000 }, (_, i) => 1 + (i % 32)).filter(
    (size) => linear(size) * (0.9 + 0.2 * random()) > times.sureMs(size),
  );
  expect(late.length).toBeLessThan(40);
  expect(times.sureMs(16)).toBeLessThan(1.25 * times.ms(16));
});

test("what is kept does not grow with the largest batch", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: sizesUpTo(65_536), batches: 5000 });
  expect([...times.sizes()].length).toBeLessThan(64 + 10 * 32);
  expect(error(times, linear, [100, 1000, 10_000, 60_000])).toBeLessThan(0.1);
});
