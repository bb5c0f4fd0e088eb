/** Owners of waiting tasks take turns at a `Gate`. `LoopWork` spreads work over turns of the event loop. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Gate } from "../src/base/collections/gate.ts";
import { LoopWork } from "../src/base/loop-work.ts";
import { nextTurn } from "./helpers/loop-turns.ts";

test("a gate runs one task of each owner before a second task of any owner, in order of arrival, also after a failure", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 60 }), async (owners) => {
      const gate = new Gate(1);
      const held = Promise.withResolvers<void>();
      const begun: number[] = [];
      const objects = Array.from({ length: 5 }, () => ({}));
      const task = (owner: number) => async () => {
        begun.push(owner);
        if (owner === 0) throw new Error("a task of the first owner fails");
      };
      const running = [gate.run({}, () => held.promise)];
      expect(gate.isFull).toBe(true);
      for (const owner of owners) running.push(gate.run(objects[owner] ?? {}, task(owner)));
      held.resolve();
      await Promise.allSettled(running);
      const expected: number[] = [];
      for (let waiting = Map.groupBy(owners, (owner) => owner); waiting.size > 0; ) {
        expected.push(...waiting.keys());
        waiting = new Map(
          [...waiting].map(([owner, [, ...rest]]) => [owner, rest] as const).filter(([, rest]) => rest.length > 0),
        );
      }
      expect(begun).toEqual(expected);
      expect(gate.isFull).toBe(false);
    }),
  );
});

test("work leaves slow pieces to later turns of the event loop", async () => {
  const turns = new LoopWork();
  turns.took(1);
  expect(turns.isOpen).toBe(true);
  turns.took(1.5);
  expect(turns.isOpen).toBe(false);
  await nextTurn();
  expect(turns.isOpen).toBe(true);
});

test("work on hold runs no piece, and all pieces afterwards", async () => {
  let isHeld = true;
  const turns = new LoopWork(() => isHeld);
  const made: number[] = [];
  turns.add(() => made.push(1));
  await nextTurn();
  await nextTurn();
  expect(made).toEqual([]);
  isHeld = false;
  await nextTurn();
  expect(made).toEqual([1]);
});
