/** Outcomes of predictions stay readable while they wait to be written to the store. */
import { expect, test } from "bun:test";
import { ChangeQueue } from "../src/server/predictions/sqlite/change-queue.ts";
import { endOf, keepAll } from "./helpers/predictions.ts";

const COUNT = 10_000;
const ids = Array.from({ length: COUNT }, (_, index) => `a${index}`);

test("an outcome that waits is readable until its write begins", () => {
  const queue = new ChangeQueue(keepAll);
  for (const id of ids) queue.end(endOf(id), 700, false);
  expect(ids.map((id) => queue.find(id))).toEqual(ids.map((id) => endOf(id)));
  queue.hasten(COUNT / 2);
  const taken = new Set<string>();
  for (let batch = queue.take(4); batch.packed.length > 0; batch = queue.take(4)) {
    for (const { id } of batch.packed) taken.add(id);
  }
  expect([...taken]).toEqual(ids.slice(0, COUNT / 2));
  expect(ids.map((id) => queue.find(id))).toEqual(ids.map((id) => (taken.has(id) ? undefined : endOf(id))));
});

test("of two outcomes with one id the later is readable, also after the write of the earlier began", () => {
  const queue = new ChangeQueue(keepAll);
  const later = endOf("a1", { logs: "later" });
  queue.end(endOf("a1"), 700, false);
  queue.end(later, 700, false);
  expect(queue.find("a1")).toEqual(later);
  queue.hasten(1);
  expect(queue.take(4).packed).toHaveLength(1);
  expect(queue.find("a1")).toEqual(later);
});
