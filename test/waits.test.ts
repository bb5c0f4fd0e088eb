/** Answers that wait: until the prediction ends, until a time limit, or until the client leaves. */
import { describe, expect, test } from "bun:test";
import type { Client } from "../src/predictions/request.ts";
import { Waits } from "../src/predictions/waits.ts";
import { livePrediction } from "./helpers/live.ts";

/** A client. At each change, `told` gets whether its connection is held open, and `nextTold` resolves. */
function client(signal = new AbortController().signal): Client & { told: boolean[]; nextTold(): Promise<void> } {
  const told: boolean[] = [];
  let next = Promise.withResolvers<void>();
  return {
    signal,
    sender: undefined,
    idSuffix: "",
    share: 1,
    told,
    nextTold: () => next.promise,
    held(isHeld) {
      told.push(isHeld);
      next.resolve();
      next = Promise.withResolvers();
    },
  };
}

describe.concurrent("an answer is held back", () => {
  test("until the client leaves, at once or later", async () => {
    const waits = new Waits();
    const [early, late] = [new AbortController(), new AbortController()];
    const answers = [early, late].map(({ signal }) => waits.until(livePrediction(), client(signal), 60_000));
    early.abort();
    await answers[0];
    const stays = client();
    const other = waits.until(livePrediction(), stays, 60_000);
    await stays.nextTold();
    late.abort();
    await answers[1];
    expect(await Promise.race([other, "still held"])).toBe("still held");
  });
});

test("a connection is held open during a long wait, and is normal afterwards", async () => {
  const [live, one] = [livePrediction(), client()];
  const answer = new Waits().until(live, one, 60_000);
  await one.nextTold();
  expect(one.told).toEqual([true]);
  live.end("Canceled", "canceled");
  await answer;
  expect(one.told).toEqual([true, false]);
});
