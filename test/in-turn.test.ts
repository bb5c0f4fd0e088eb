/** `RoundRobin` gives items of several owners in turn. `LoopWork` spreads the work of several owners over turns. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { RoundRobin } from "../src/base/collections/round-robin.ts";
import { LoopWork } from "../src/base/loop-work.ts";

const turnOfTheLoop = () => new Promise((resolve) => setImmediate(resolve));

describe("round robin", () => {
  test("gives one item of each owner before a second item of any owner, in order of arrival", () => {
    const step = fc.oneof(fc.record({ owner: fc.integer({ min: 0, max: 4 }) }), fc.constant(undefined));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const owners = Array.from({ length: 5 }, () => ({}));
        const inTurn = new RoundRobin<number>();
        let model: { owner: number; values: number[] }[] = [];
        for (const [value, step] of steps.entries()) {
          if (step === undefined) {
            const [first, ...others] = model;
            expect(inTurn.next()).toBe(first?.values.shift());
            model = first === undefined || first.values.length === 0 ? others : [...others, first];
          } else {
            const known = model.find(({ owner }) => owner === step.owner);
            if (known === undefined) model.push({ owner: step.owner, values: [value] });
            else known.values.push(value);
            inTurn.add(owners[step.owner] ?? {}, value);
          }
          expect(inTurn.isEmpty).toBe(model.length === 0);
        }
      }),
    );
  });
});

describe("work over turns of the event loop", () => {
  test("leaves slow pieces to later turns", async () => {
    const turns = new LoopWork();
    turns.took(1);
    expect(turns.isOpen).toBe(true);
    turns.took(1.5);
    expect(turns.isOpen).toBe(false);
    await turnOfTheLoop();
    expect(turns.isOpen).toBe(true);
    turns.took(1.5);
    await turnOfTheLoop();
    turns.took(1.5);
    expect(turns.isOpen).toBe(true);
  });

  test("runs the pieces of the owners in turn, as many as fit in the time", async () => {
    const turns = new LoopWork();
    const made: string[] = [];
    const [many, few] = [{}, {}];
    for (const name of ["a1", "a2", "a3"]) turns.add(many, () => made.push(name));
    turns.add(few, () => {
      made.push("b1");
      turns.took(10);
    });
    while (!made.includes("b1")) await turnOfTheLoop();
    expect(made).toEqual(["a1", "b1"]);
    while (made.length < 4) await turnOfTheLoop();
    expect(made).toEqual(["a1", "b1", "a2", "a3"]);
  });

  test("runs no piece on hold, and all pieces afterwards", async () => {
    let isHeld = true;
    const turns = new LoopWork(() => isHeld);
    const made: number[] = [];
    turns.add({}, () => made.push(1));
    await turnOfTheLoop();
    await turnOfTheLoop();
    expect(made).toEqual([]);
    isHeld = false;
    await turnOfTheLoop();
    expect(made).toEqual([1]);
  });
});
