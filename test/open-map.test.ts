/** `OpenMap`, for entries that come and go: it behaves like Map, but its old tables keep no removed entry alive. */

import { edenGC, fullGC, heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { OpenMap } from "../src/base/collections/open-map.ts";

const key = fc.integer({ min: 0, max: 200 });
const step = fc.oneof(
  fc.record({ op: fc.constant("set"), key, value: fc.integer() }),
  fc.record({ op: fc.constant("delete"), key, value: fc.constant(0) }),
);

describe("an open map", () => {
  for (const [name, hash] of [
    ["whose hashes differ", (key: number) => key],
    ["where many keys have one hash", (key: number) => key % 7],
    ["whose hashes are of 32 bits", (key: number) => Math.imul(key, 0x9e3779b1)],
  ] as const) {
    test(`${name} behaves like a Map`, () => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 500 }), (steps) => {
          const [map, model] = [new OpenMap<number, number>(hash), new Map<number, number>()];
          for (const { op, key, value } of steps) {
            if (op === "delete") expect(map.delete(key)).toBe(model.delete(key));
            else {
              map.set(key, value);
              model.set(key, value);
            }
            expect(map.size).toBe(model.size);
          }
          for (let key = 0; key <= 200; key++) expect(map.get(key)).toBe(model.get(key));
          expect([...map].sort()).toEqual([...model.values()].sort());
        }),
      );
    });
  }

  test("keeps only its current entries alive in a collection of young objects", () => {
    fullGC();
    const before = datesAlive();
    const map = new OpenMap<number, Date>((key) => key);
    const rounds = 20;
    for (let round = 0; round < rounds; round++) {
      for (let i = 1000 * round; i < 1000 * (round + 1); i++) {
        map.set(i, new Date(i));
        map.delete(i - 64);
      }
      edenGC();
    }
    // Each round keeps at most its 64 current entries alive. A `Map` would keep 6 times as many dates alive, because
    // its old tables stay in the old generation.
    expect(datesAlive() - before).toBeLessThanOrEqual((rounds + 1) * 64);
  });
});

function datesAlive(): number {
  return heapStats().objectTypeCounts.Date ?? 0;
}
