/** The expected wait of a new prediction, estimated from the rate at which inputs began. */
import { expect, test } from "bun:test";
import { DrainRate } from "../src/pipeline/drain-rate.ts";
import { QueueWait } from "../src/predictions/redis/queue-state.ts";

/**
 * Begins `perSecond` inputs a second, for `seconds` from `fromMs` on. The queue is never empty. @returns the time at
 * the end in milliseconds
 */
function work(
  rate: DrainRate,
  perSecond: number,
  { seconds, fromMs = 0 }: { seconds: number; fromMs?: number },
): number {
  rate.busy(fromMs);
  let nowMs = fromMs;
  for (let i = 0; i < perSecond * seconds; i++) {
    nowMs += 1000 / perSecond;
    rate.started(1, nowMs);
  }
  return nowMs;
}

test("a server with little history has no estimate", () => {
  const rate = new DrainRate(() => 1);
  expect(rate.waitMs(1_000_000, work(rate, 10, { seconds: 0.5 }))).toBe(0);
});

test("while a device hangs, the expected wait grows", () => {
  const rate = new DrainRate(() => 1);
  const thenMs = work(rate, 100, { seconds: 20 });
  expect(rate.waitMs(100, thenMs + 60_000)).toBeGreaterThan(9000);
});

test("while the first batch runs, further batches are expected to take as long as it has run", () => {
  const rate = new DrainRate(() => 64);
  rate.busy(0);
  expect(rate.waitMs(128, 10_000)).toBe(20_000);
});

test("with slow inputs, the estimate covers the time in which as many inputs began as run at once", () => {
  const rate = new DrainRate(() => 12);
  const nowMs = work(rate, 0.2, { seconds: 300 });
  expect(rate.waitMs(12, nowMs)).toBeCloseTo(60_000, -4);
});

test("before any input has begun, the expected wait is the time since the server is busy", () => {
  const rate = new DrainRate(() => 0);
  rate.busy(0);
  expect([rate.waitMs(0, 9000), rate.waitMs(4000, 9000)]).toEqual([0, 9000]);
});

test("in a queue, the rate is that of the claims, which the figures of the queue show once a second", () => {
  const wait = new QueueWait();
  for (let second = 0; second <= 20; second++) {
    wait.update({ ended: 50 * second, waiting: 1000 - 50 * second, taken: 16 }, 1000 * second);
  }
  expect([wait.waitMs(20_000), wait.waitMs(21_000)]).toEqual([0, 0]);
  wait.update({ ended: 1000, waiting: 500, taken: 16 }, 21_000);
  wait.update({ ended: 1040, waiting: 500, taken: 26 }, 22_000);
  expect(wait.waitMs(22_000)).toBeCloseTo(10_000, -3);
});
