/** A prediction in progress: its items end, it is observed, and it ends. */
import { expect, test } from "bun:test";
import { SconceError } from "../src/base/errors.ts";
import { ReadyInputs } from "../src/pipeline/inputs/input-list.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { type EndedRecord, statusOf } from "../src/predictions/record.ts";
import { livePrediction } from "./helpers/live.ts";

/** A prediction in progress, its inputs, and the records that it reported at its end. */
function started(count = 1) {
  const ended: EndedRecord[] = [];
  const live = livePrediction({ count, maxResultBytes: 20, onEnd: (_, record) => ended.push(record) });
  const list = live.run(new ReadyInputs(Array.from({ length: count }, (_, i) => i + 1)));
  return { live, list, ended };
}

test("a prediction that has ended does not change, whatever is reported about its items", () => {
  const { live, list, ended } = started();
  live.end("Canceled", "canceled");
  const { outcome, finishedAtMs } = live.record;
  list.succeeded(0, 1);
  live.end("Timed out", "timeout");
  expect(live.record).toMatchObject({ outcome: outcome ?? {}, finishedAtMs: finishedAtMs ?? 0 });
  expect(statusOf(live.record)).toBe("failed");
  expect(ended).toHaveLength(1);
});

test("an item that has ended releases its input", () => {
  const { list } = started(2);
  expect(list.input(0)).toBe(1);
  list.succeeded(0, "a");
  expect(list.input(0)).toBeUndefined();
  expect(list.input(1)).toBe(2);
});

test("outputs are limited in bytes, not in characters", () => {
  const { live, list } = started();
  list.succeeded(0, "äääääääääää");
  expect(live.record.outcome?.members).toContain(" 20 bytes");
});

test("outputs that do not fit in memory end a prediction, unless no other prediction holds memory", () => {
  const memory = new MemoryAccount({ maxBytes: 1e6 });
  const [one, other] = [livePrediction({ memory }), livePrediction({ memory })];
  expect(one.take(200_000)).toBe(true);
  expect(memory.parts.outputs).toBe(600_000);
  expect(other.take(17_000)).toBe(false);
  expect([other.failedFor, String(other.record.outcome?.members)]).toEqual([
    "memory",
    expect.stringContaining("--max-memory"),
  ]);
  expect(one.take(17_000)).toBe(false);
  expect([one.failedFor, String(one.record.outcome?.members)]).toEqual([
    "size",
    expect.stringContaining(" 216666 bytes"),
  ]);
  expect(memory.parts.outputs).toBe(0);
});

test("the first 4 kB of a prediction's outputs always fit", () => {
  const memory = new MemoryAccount({ maxBytes: 1e6 });
  memory.add("outputs", 2e6);
  const live = livePrediction({ memory });
  expect([4000, 96, 1].map((bytes) => live.take(bytes))).toEqual([true, true, false]);
  expect(live.failedFor).toBe("memory");
});

test("the message of a fault is shortened, however long the model's message is", () => {
  const { list, ended } = started(200);
  for (let i = 0; i < 200; i++) list.failed(i, new SconceError("item_failed", "m".repeat(100_000)));
  expect(ended[0]?.outcome.members.length).toBeLessThan(100 * 11_000 + 100 * 600 + 200_000);
});
