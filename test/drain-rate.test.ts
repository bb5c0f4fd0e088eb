/** The expected wait of a new prediction, estimated from the rate at which others ended. */
import { expect, test } from "bun:test";
import { DrainRate } from "../src/server/flow/drain-rate.ts";

/** Ends `perSecond` inputs a second for `seconds` from `fromMs` on; some inputs always remain. */
function work(
  rate: DrainRate,
  perSecond: number,
  { seconds, fromMs = 0 }: { seconds: number; fromMs?: number },
): number {
  rate.begun(fromMs);
  let nowMs = fromMs;
  for (let i = 0; i < perSecond * seconds; i++) {
    nowMs += 1000 / perSecond;
    rate.ended(1, nowMs, false);
  }
  return nowMs;
}

test("a server with little history has no estimate", () => {
  const rate = new DrainRate();
  expect(rate.waitMs(1_000_000, work(rate, 10, { seconds: 0.5 }))).toBe(0);
});

test("a prediction waits for one input of each earlier prediction", () => {
  const rate = new DrainRate();
  expect(rate.waitMs(300, work(rate, 100, { seconds: 20 }))).toBeCloseTo(3000, -2);
});

test("a slower device lengthens the expected wait within seconds", () => {
  const rate = new DrainRate();
  const thenMs = work(rate, 100, { seconds: 20 });
  expect(rate.waitMs(100, work(rate, 10, { seconds: 30, fromMs: thenMs }))).toBeGreaterThan(8000);
});

test("idle time does not count", () => {
  const rate = new DrainRate();
  const thenMs = work(rate, 100, { seconds: 20 });
  rate.ended(1, thenMs, true);
  const laterMs = thenMs + 3_600_000;
  expect(rate.waitMs(100, work(rate, 100, { seconds: 1, fromMs: laterMs }))).toBeCloseTo(1000, -2);
});

test("a hanging device lengthens the expected wait meanwhile", () => {
  const rate = new DrainRate();
  const thenMs = work(rate, 100, { seconds: 20 });
  expect(rate.waitMs(100, thenMs + 60_000)).toBeGreaterThan(9000);
});
