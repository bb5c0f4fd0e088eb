import { expect, test } from "bun:test";
import { Fifo } from "../src/base/collections/fifo.ts";

test("a queue does not keep removed items in memory", async () => {
  const queue = new Fifo<object>();
  for (let i = 0; i < 31; i++) queue.push({});
  const taken = Array.from({ length: 30 }, () => new WeakRef(queue.shift() ?? {}));
  // A WeakRef keeps its target alive until the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  Bun.gc(true);
  // Up to four items may still be alive, since the stack may refer to them.
  expect(taken.filter((each) => each.deref() !== undefined).length).toBeLessThan(5);
  expect(queue.rest().length).toBe(1);
});
