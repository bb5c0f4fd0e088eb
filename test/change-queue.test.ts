/** Changes of predictions that wait for their commit. */
import { expect, test } from "bun:test";
import { ChangeQueue } from "../src/predictions/sqlite/change-queue.ts";
import { endOf, keepAll, largeEndOf, requestOf } from "./helpers/predictions.ts";

const COUNT = 10_000;
const ids = Array.from({ length: COUNT }, (_, index) => `a${index}`);

test("an outcome that waits is readable until its write begins", () => {
  const queue = new ChangeQueue(keepAll);
  for (const id of ids) queue.end(endOf(id), 700);
  expect(ids.map((id) => queue.find(id))).toEqual(ids.map((id) => endOf(id)));
  const taken = queue.take(4).changes.map(({ id }) => id);
  expect(taken).toEqual(ids.slice(0, taken.length));
  expect(ids.map((id) => queue.find(id))).toEqual(ids.map((id, i) => (i < taken.length ? undefined : endOf(id))));
});

test("a commit has a limit of bytes, whatever the number of its requests and outcomes", () => {
  const size = 60_000;
  for (const add of [
    (queue: ChangeQueue, id: string) => queue.end(largeEndOf(id, size), size),
    (queue: ChangeQueue, id: string) =>
      queue.create({
        request: requestOf(id, { body: `["${"x".repeat(size)}"]` }),
        file: undefined,
        begunAtMs: undefined,
        waiting: { resolve: () => {}, reject: () => {} },
      }),
  ]) {
    const queue = new ChangeQueue(keepAll);
    for (const id of ids.slice(0, 1000)) add(queue, id);
    const counts: number[] = [];
    while (!queue.isEmpty) counts.push(queue.take(4).changes.length);
    expect(counts.reduce((sum, count) => sum + count)).toBe(1000);
    expect(Math.max(...counts) * size).toBeLessThan(10_000_000);
  }
});
