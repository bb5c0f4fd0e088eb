/** The limits of the input queue, which the models of a server share. */
import { expect, test } from "bun:test";
import { Admission } from "../src/predictions/admission.ts";

const flow = { waitMs: () => 0 };
const limits = { maxQueuedItems: 100, maxQueuedBytes: 1000 };

/** Admits predictions of one input until one is refused. @returns the number of admitted predictions */
function fill(admission: Admission, bytes = 0): number {
  for (let count = 0; ; count++) {
    try {
      admission.check({ bytes, waitMs: 0 }, 1, 1000);
    } catch {
      return count;
    }
    admission.add(1, bytes);
  }
}

test("one model uses the whole queue", () => {
  expect(fill(new Admission({ queueMs: flow.waitMs, limits }))).toBe(100);
});

test("of several models, each leaves a part of the queue to the others; each further model shrinks its share", () => {
  const unfinished = { items: 0, bytes: 0 };
  const models = [1, 2, 3].map(() => new Admission({ queueMs: flow.waitMs, limits, unfinished, hasOthers: true }));
  expect(models.map((admission) => fill(admission))).toEqual([50, 25, 13]);
  expect(unfinished.items).toBe(88);
  expect(models.map((admission) => admission.unfinished.items)).toEqual([50, 25, 13]);
});

test("the limit for the bytes of bodies is shared by the same rule", () => {
  const unfinished = { items: 0, bytes: 0 };
  const models = [1, 2].map(() => new Admission({ queueMs: flow.waitMs, limits, unfinished, hasOthers: true }));
  expect(models.map((admission) => fill(admission, 50))).toEqual([10, 5]);
});
