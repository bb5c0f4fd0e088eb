/** Answers that are held back for the end of a prediction, or until a client has waited enough, or has left. */
import { describe, expect, test } from "bun:test";
import { HeldAnswers } from "../src/http/held-answers.ts";
import { ReadyInputs } from "../src/inputs/input-list.ts";
import { Prediction } from "../src/serving/prediction.ts";

function open(): Prediction {
  return new Prediction({
    id: "id",
    count: 1,
    bytes: 1,
    deadlineMs: Infinity,
    inputs: new ReadyInputs([1]),
    onEnd() {},
    onRows() {},
    onFault() {},
    encode: JSON.stringify,
    maxResultBytes: 1000,
  });
}

/** What is told of connections, and a promise for the next telling. */
function heldAnswers() {
  const told: boolean[] = [];
  let next = Promise.withResolvers<void>();
  const held = new HeldAnswers((_, isHeld) => {
    told.push(isHeld);
    next.resolve();
    next = Promise.withResolvers();
  });
  return { held, told, nextTold: () => next.promise };
}

const requestOf = (signal?: AbortSignal) => new Request("http://localhost/", signal === undefined ? {} : { signal });

describe.concurrent("an answer is held back", () => {
  test("until the prediction ends", async () => {
    const { held, told } = heldAnswers();
    const prediction = open();
    const answers = [held.until(prediction, requestOf(), 60_000), held.until(prediction, requestOf(), 60_000)];
    prediction.end("Canceled");
    await Promise.all(answers);
    expect(told).toEqual([]);
  });

  test("not at all, once it has ended", async () => {
    const prediction = open();
    prediction.end("Canceled");
    await heldAnswers().held.until(prediction, requestOf(), 60_000);
  });

  test("not at all for a client that does not wait", async () => {
    const prediction = open();
    await heldAnswers().held.until(prediction, requestOf(), 0);
    expect(prediction.isOver).toBe(false);
  });

  test("no longer than its client waits", async () => {
    const prediction = open();
    const begin = performance.now();
    await heldAnswers().held.until(prediction, requestOf(), 120);
    expect(performance.now() - begin).toBeGreaterThanOrEqual(119);
    expect(prediction.isOver).toBe(false);
  });

  test("until its client leaves, be it at once or after a while", async () => {
    const { held, nextTold } = heldAnswers();
    const [early, late] = [new AbortController(), new AbortController()];
    const answers = [early, late].map(({ signal }) => held.until(open(), requestOf(signal), 60_000));
    early.abort();
    await answers[0];
    const other = held.until(open(), requestOf(), 60_000);
    await nextTold();
    late.abort();
    await answers[1];
    expect(await Promise.race([other, "still held"])).toBe("still held");
  });
});

test("a connection is told to stay open for a long wait, and to be as any other after it", async () => {
  const { held, told, nextTold } = heldAnswers();
  const prediction = open();
  const answer = held.until(prediction, requestOf(), 60_000);
  await nextTold();
  expect(told).toEqual([true]);
  prediction.end("Canceled");
  await answer;
  expect(told).toEqual([true, false]);
});
