/**
 * Estimates of how long a batch takes: for measured and unmeasured sizes, with noise, over time, and on a device that
 * becomes slower.
 */
import { describe, expect, test } from "bun:test";
import { BatchTimes } from "../src/engine/batch-times.ts";
import { type Curve, seeded } from "./helpers/loads.ts";

const sizesUpTo = (max: number) => Array.from({ length: max }, (_, i) => i + 1);

/** Reports many batches of random sizes to the estimator; their times vary by 10 %. */
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

/** Largest relative error of the estimates for these batch sizes. */
function error(times: BatchTimes, curve: Curve, sizes: readonly number[]): number {
  return Math.max(...sizes.map((size) => Math.abs(times.ms(size) / curve(size) - 1)));
}

const linear: Curve = (size) => 8 + 0.5 * size;

test("before the first batch of a device there are no estimates", () => {
  expect(new BatchTimes().ms(4)).toBe(0);
});

describe("estimates are wrong by a few hundredths at most", () => {
  const curves: Readonly<Record<string, Curve>> = {
    linear,
    sublinear: (size) => 4 + 2 * Math.sqrt(size),
    stepped: (size) => 4 + 6 * Math.ceil(size / 16),
  };
  test.each(Object.entries(curves))("for a curve of times that is %s", (_, curve) => {
    const times = new BatchTimes();
    teach(times, curve, { sizes: sizesUpTo(64), batches: 3000 });
    expect(error(times, curve, sizesUpTo(64))).toBeLessThan(0.06);
  });
});

test("an unmeasured size gets an interpolated time, and a size above all measured ones a proportional time", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: [1, 20, 40], batches: 500 });
  for (const size of [10, 30]) expect(times.ms(size) / linear(size)).toBeWithin(0.95, 1.05);
  expect(times.ms(80) / times.ms(40)).toBeCloseTo(2);
});

test("a larger batch never has a smaller estimate", () => {
  const times = new BatchTimes();
  teach(times, () => 10, { sizes: sizesUpTo(200), batches: 400 });
  const ms = sizesUpTo(220).map((size) => times.ms(size));
  expect(ms).toEqual(ms.toSorted((a, b) => a - b));
});

test.each([3, 1 / 3])(
  "a device that becomes %d times as slow is relearned after some dozens of batches, for unmeasured sizes too",
  (factor) => {
    const times = new BatchTimes();
    teach(times, linear, { sizes: sizesUpTo(64), batches: 2000 });
    const changed: Curve = (size) => factor * linear(size);
    teach(times, changed, { sizes: [8, 9, 10], batches: 60 });
    expect(error(times, changed, [8, 9, 10])).toBeLessThan(0.1);
    expect(error(times, changed, [1, 32, 64])).toBeLessThan(0.4);
  },
);

test("one batch with a hundredfold time changes little", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: sizesUpTo(32), batches: 1000 });
  times.observe(16, 100 * linear(16));
  expect(error(times, linear, sizesUpTo(32))).toBeLessThan(0.15);
});

test("nearly every batch ends within the safe estimate, which is slightly longer than the expected time", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: sizesUpTo(32), batches: 2000 });
  const random = seeded(5);
  const late = Array.from({ length: 2000 }, (_, i) => 1 + (i % 32)).filter(
    (size) => linear(size) * (0.9 + 0.2 * random()) > times.sureMs(size),
  );
  expect(late.length).toBeLessThan(40);
  expect(times.sureMs(16)).toBeLessThan(1.25 * times.ms(16));
});

test("the memory of the estimator does not grow with the largest batch", () => {
  const times = new BatchTimes();
  teach(times, linear, { sizes: sizesUpTo(65_536), batches: 5000 });
  expect([...times.sizes()].length).toBeLessThan(64 + 10 * 32);
  expect(error(times, linear, [100, 1000, 10_000, 60_000])).toBeLessThan(0.1);
});
