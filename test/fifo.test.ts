import { expect, test } from "bun:test";
import { Fifo } from "../src/base/collections/fifo.ts";

test("what was taken from a queue is not held by it", async () => {
  const queue = new Fifo<object>();
  for (let i = 0; i < 31; i++) queue.push({});
  const taken = Array.from({ length: 30 }, () => new WeakRef(queue.shift() ?? {}));
  // A WeakRef keeps its target alive until the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  Bun.gc(true);
  // The stack may still refer to some of them.
  expect(taken.filter((each) => each.deref() !== undefined).length).toBeLessThan(5);
  expect(queue.rest().length).toBe(1);
});
