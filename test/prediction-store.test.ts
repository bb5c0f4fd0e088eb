/** Which ended predictions are kept, by count, age and bytes. */
import { describe, expect, test } from "bun:test";
import { SconceError } from "../src/errors.ts";
import { ReadyInputs } from "../src/inputs/input-list.ts";
import { Prediction } from "../src/serving/prediction.ts";
import { PredictionStore, type RetentionLimits } from "../src/serving/prediction-store.ts";
import type { PredictionRecord } from "../src/serving/record.ts";

const all: RetentionLimits = { maxCount: 1000, maxAgeMs: 1_000_000, maxBytes: 1_000_000 };

function storeWith(limits: Partial<RetentionLimits>) {
  const clock = { nowMs: Date.now() };
  const store = new PredictionStore({ ...all, ...limits }, () => clock.nowMs);
  let next = 0;
  const shared = {
    count: 1,
    bytes: 1,
    deadlineMs: Infinity,
    onEnd: (record: PredictionRecord) => store.ended(record),
    onRows() {},
    onFault() {},
    encode: JSON.stringify,
    maxResultBytes: 1_000_000,
  };
  return {
    store,
    clock,
    add(): Prediction {
      const prediction = new Prediction({ ...shared, id: `id-${next++}`, inputs: new ReadyInputs([1]) });
      store.add(prediction);
      return prediction;
    },
    isKept: (prediction: Prediction) => store.get(prediction.id) === prediction,
  };
}

const outputOf = (bytes: number) => "x".repeat(bytes);

describe("an ended prediction is forgotten", () => {
  test("when more than the allowed number ended after it", () => {
    const { add, isKept } = storeWith({ maxCount: 2 });
    const [first, second, third] = [add(), add(), add()];
    // In the order in which they ended, not in which they were made.
    for (const prediction of [third, first, second]) prediction.itemSucceeded(0, 1);
    expect([first, second, third].map(isKept)).toEqual([true, true, false]);
  });

  test("when it is older than allowed", () => {
    const { add, isKept, clock } = storeWith({ maxAgeMs: 1000 });
    const prediction = add();
    prediction.itemSucceeded(0, 1);
    clock.nowMs += 900;
    expect(isKept(prediction)).toBe(true);
    clock.nowMs += 200;
    expect(isKept(prediction)).toBe(false);
  });

  test("when the results that ended after it take the bytes", () => {
    const { add, isKept } = storeWith({ maxBytes: 10_000 });
    const predictions = [add(), add(), add()];
    for (const prediction of predictions) prediction.itemSucceeded(0, outputOf(4000));
    expect(predictions.map(isKept)).toEqual([false, true, true]);
  });
});

describe("what is kept", () => {
  test("is everything that has not ended", () => {
    const { add, isKept, clock, store } = storeWith({ maxCount: 0, maxAgeMs: 0, maxBytes: 0 });
    const [open, ended] = [add(), add()];
    ended.itemSucceeded(0, 1);
    clock.nowMs += 1_000_000;
    expect([open, ended].map(isKept)).toEqual([true, false]);
    expect({ active: store.active, retained: store.retained }).toEqual({ active: 1, retained: { count: 0, bytes: 0 } });
  });

  test("is the newest result, even one that is larger than all may be", () => {
    const { add, isKept } = storeWith({ maxBytes: 1000 });
    const prediction = add();
    prediction.itemSucceeded(0, outputOf(100_000));
    expect(isKept(prediction)).toBe(true);
  });

  test("is counted in bytes, and no longer when it is forgotten", () => {
    const { add, store } = storeWith({ maxCount: 1 });
    const [small, large] = [add(), add()];
    large.itemSucceeded(0, outputOf(10_000));
    expect(store.retained.bytes).toBeGreaterThan(10_000);
    small.itemSucceeded(0, 1);
    expect(store.retained).toEqual({ count: 1, bytes: expect.any(Number) });
    expect(store.retained.bytes).toBeLessThan(1000);
  });
});

describe("a prediction that has ended", () => {
  test("stays as it is, whatever is still told of its items", () => {
    const { add } = storeWith({});
    const prediction = add();
    prediction.end("Canceled");
    const { outcome, finishedAtMs } = prediction;
    prediction.itemSucceeded(0, 1);
    prediction.failed(0, new SconceError("run_failed", "too late"));
    prediction.end("Timed out");
    expect(prediction.outcome).toBe(outcome);
    expect(prediction.finishedAtMs).toBe(finishedAtMs);
    expect(prediction.status).toBe("failed");
  });

  test("lets go of its inputs", () => {
    const { add } = storeWith({});
    const prediction = add();
    expect(prediction.input(0)).toBe(1);
    prediction.itemSucceeded(0, 1);
    expect(prediction.input(0)).toBeUndefined();
  });

  test("calls back those who asked for it, once, and none who asked to be left out", () => {
    const { add } = storeWith({});
    const prediction = add();
    const called: string[] = [];
    const [first, second, third] = ["first", "second", "third"].map((name) => () => called.push(name));
    for (const callback of [first, second, third]) prediction.onceOver(callback ?? (() => {}));
    prediction.forgo(second ?? (() => {}));
    prediction.end("Canceled");
    prediction.end("Timed out");
    expect(called).toEqual(["first", "third"]);
  });
});
