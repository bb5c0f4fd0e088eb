/** What a search for an outcome costs that is not written yet, and what it finds. */
import { expect, spyOn, test } from "bun:test";
import { Fifo } from "../src/base/collections/fifo.ts";
import { MemoryAccount } from "../src/server/memory/memory-account.ts";
import { MemoryStore } from "../src/server/predictions/memory-store.ts";
import { ChangeQueue } from "../src/server/predictions/sqlite/change-queue.ts";
import { endOf, keepAll } from "./helpers/predictions.ts";

const COUNT = 10_000;
const ids = Array.from({ length: COUNT }, (_, index) => `a${index}`);

/** A queue of outcomes that were told with the answer, and a store with the newest of them. */
function queueBehind(recentCount: number) {
  const queue = new ChangeQueue(keepAll);
  const recent = new MemoryStore({ ...keepAll, maxCount: recentCount }, { memory: new MemoryAccount() });
  for (const id of ids) {
    const record = endOf(id);
    queue.end(record, recent.keep(record) ?? 0, false);
  }
  return { queue, find: (id: string) => recent.recall(id) ?? queue.find(id, recent.oldestMs) };
}

test.each([0, 1, 100, COUNT])("with the newest %p in memory, each is found until it is written", (recentCount) => {
  const { queue, find } = queueBehind(recentCount);
  expect(ids.map(find)).toEqual(ids.map((id) => endOf(id)));
  queue.hasten(COUNT / 2);
  const written = new Set<string>();
  for (let batch = queue.take(4); batch.told.length > 0; batch = queue.take(4)) {
    for (const { id } of batch.told) written.add(id);
  }
  expect(written.size).toBe(COUNT / 2);
  const left = ids.filter((id) => !written.has(id));
  expect(left.map(find)).toEqual(left.map((id) => endOf(id)));
  for (const id of written) expect(queue.find(id, Infinity)).toBeUndefined();
});

test("one that has the id of an earlier one is found when that is written", () => {
  const queue = new ChangeQueue(keepAll);
  const again = endOf("a1", { logs: "again" });
  queue.end(endOf("a1"), 700, false);
  queue.end(again, 700, false);
  expect(queue.find("a1", Infinity)).toEqual(again);
  queue.hasten(1);
  expect(queue.take(4).told).toHaveLength(1);
  expect(queue.find("a1", Infinity)).toEqual(again);
});

test("a search looks at those alone that are not in memory, and at each once", () => {
  const { find } = queueBehind(COUNT - 100);
  using looks = spyOn(Fifo.prototype, "at");
  for (let search = 0; search < 1000; search++) expect(find(`unknown-${search}`)).toBeUndefined();
  // One look of each search finds that there is nothing more to look at.
  expect(looks.mock.calls.length).toBeLessThan(1000 + 200);
});
