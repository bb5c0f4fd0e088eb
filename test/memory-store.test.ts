/** The store that keeps ended predictions in memory: limits of their number, age and bytes. */
import { describe, expect, test } from "bun:test";
import { MemoryStore } from "../src/predictions/memory-store.ts";
import type { EndedRecord } from "../src/predictions/record.ts";
import type { RetentionLimits } from "../src/predictions/retention.ts";
import { endOf, keepAll, largeEndOf } from "./helpers/predictions.ts";

function storeWith(limits: Partial<RetentionLimits>) {
  const clock = { nowMs: 0 };
  const store = new MemoryStore({ ...keepAll, ...limits }, { now: () => clock.nowMs });
  const keptOf = async (...records: EndedRecord[]) =>
    Promise.all(records.map(async (record) => Bun.deepEquals(await store.read(record.id), record)));
  return { store, clock, keptOf };
}

describe("an ended prediction is evicted", () => {
  test("when it exceeds the allowed age by the monotonic clock, whatever its times say", async () => {
    const { store, keptOf, clock } = storeWith({ maxAgeMs: 1000 });
    const [record, fromTheFuture] = [endOf("1", { finishedAtMs: 0 }), endOf("2", { finishedAtMs: 9e15 })];
    store.finish(record);
    store.finish(fromTheFuture);
    clock.nowMs += 900;
    expect(await keptOf(record, fromTheFuture)).toEqual([true, true]);
    clock.nowMs += 200;
    expect(await keptOf(record, fromTheFuture)).toEqual([false, false]);
    expect(store.retained).toEqual({ count: 0, bytes: 0 });
  });

  test("when later predictions exceed the bytes, counted with their overhead", () => {
    const { store } = storeWith({ maxBytes: 100_000 });
    for (let i = 0; i < 1000; i++) store.finish(endOf(`${i}`));
    expect(store.retained.count).toBeGreaterThan(100);
    expect(store.retained.count).toBeLessThan(100_000 / 700);
    expect(store.retained.bytes).toBeLessThanOrEqual(100_000);
  });
});

describe("the store", () => {
  test("retains the newest result, even if it exceeds the limit alone", async () => {
    const { store, keptOf } = storeWith({ maxBytes: 1000 });
    const record = largeEndOf("1", 100_000);
    store.finish(record);
    expect(await keptOf(record)).toEqual([true]);
  });

  test("counts a result's bytes in UTF-8, with its logs, until it is evicted", () => {
    const { store } = storeWith({ maxBytes: 6000 });
    const outcome = { status: "success", members: `"outputs":["${"語".repeat(1000)}"]` } as const;
    store.finish(endOf("1", { outcome, logs: "é".repeat(1000) }));
    expect(store.retained.bytes).toBeGreaterThan(5000);
    expect(store.retained.bytes).toBeLessThan(6000);
    store.finish(endOf("2"));
    expect(store.retained).toEqual({ count: 1, bytes: expect.any(Number) });
    expect(store.retained.bytes).toBeLessThan(1000);
  });

  const digest = "digest of the body";

  test("keeps the first outcome of an id that a client chose, and ignores a second", async () => {
    const { store } = storeWith({});
    const first = endOf("1", { digest });
    store.finish(first);
    store.finish(endOf("1", { digest, outcome: { status: "failed", members: '"error_message":"Canceled"' } }));
    expect(await store.read("1")).toEqual(first);
    expect(store.retained.count).toBe(1);
  });

  test("accepts another outcome of a chosen id once the first has expired, even if nobody has read it since", async () => {
    const { store, clock } = storeWith({ maxAgeMs: 1000 });
    store.finish(endOf("1", { digest }));
    clock.nowMs = 1001;
    const again = endOf("1", { digest, outcome: { status: "failed", members: '"error_message":"Canceled"' } });
    store.finish(again);
    expect(await store.read("1")).toEqual(again);
    expect(store.retained.count).toBe(1);
  });
});
