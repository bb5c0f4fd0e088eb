/** What becomes of predictions whose clients are gone while their queue is away. */
import { describe, expect, test } from "bun:test";
import { SconceError } from "../src/base/errors.ts";
import { Forsaken, type ForsakenOne } from "../src/server/queue/forsaken.ts";
import { isAnswerLost, type RedisLink } from "../src/server/queue/redis-link.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { redisLinks } from "./helpers/redis-links.ts";

/** A queue that is away until it is told to come back. */
function queue() {
  const calls: string[][] = [];
  const state = { isAway: true };
  const cancel = async (ones: readonly ForsakenOne[]) => {
    calls.push(ones.map(({ id }) => id));
    if (state.isAway) throw new SconceError("queue_unavailable", "away");
  };
  return { calls, state, forsaken: new Forsaken(cancel) };
}

const one = (i: number, deadlineMs = Number.POSITIVE_INFINITY) =>
  ({ id: `p${i}`, kind: "prediction", deadlineMs }) as const;

describe("predictions that are forsaken", () => {
  test("are cancelled at once where the queue is there, in one call at a time", async () => {
    const calls: { readonly ids: string[]; readonly end: () => void }[] = [];
    const forsaken = new Forsaken((ones) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      calls.push({ ids: ones.map(({ id }) => id), end: resolve });
      return promise;
    });
    const first = forsaken.add(one(0));
    const others = Array.from({ length: 150 }, (_, i) => forsaken.add(one(i + 1)));
    void forsaken.cancelAll();
    expect(calls.map(({ ids }) => ids)).toEqual([["p0"]]);
    for (let i = 0; i < 3; i++) {
      while (calls.length === i) await Promise.resolve();
      calls[i]?.end();
    }
    await Promise.all([first, ...others]);
    expect(calls.map(({ ids }) => ids.length)).toEqual([1, 100, 50]);
  });

  test("are cancelled in batches once the queue is back, and no more after that", async () => {
    const { calls, state, forsaken } = queue();
    await Promise.all(Array.from({ length: 250 }, (_, i) => forsaken.add(one(i))));
    state.isAway = false;
    calls.length = 0;
    await forsaken.cancelAll();
    await forsaken.cancelAll();
    expect(calls.map(({ length }) => length)).toEqual([100, 100, 50]);
    expect(new Set(calls.flat()).size).toBe(250);
  });

  test("are kept for a queue that is away up to a bound, and no longer than their time", async () => {
    const { calls, state, forsaken } = queue();
    for (let i = 0; i < 20_000; i++) void forsaken.add(one(i, i % 2 === 0 ? performance.now() : undefined));
    await forsaken.cancelAll();
    state.isAway = false;
    calls.length = 0;
    await forsaken.cancelAll();
    expect(calls.flat()).toHaveLength(5000);
    expect(calls.flat()).not.toContain("p0");
  });
});

describe.skipIf(!hasRedis)(`a command that failed (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const failureOf = (link: RedisLink, ...command: [string, ...string[]]) =>
    link.call(...command).catch((error) => error);

  test("may have been carried out where it was sent and not answered, and else was not", async () => {
    await using redis = await startRedis();
    using links = await redisLinks(redis.url);
    const { link } = links;
    expect(isAnswerLost(await failureOf(link, "incr"))).toBe(false);
    redis.pause();
    expect(isAnswerLost(await failureOf(link, "incr", "x"))).toBe(true);
    await redis.stop();
    // Its connection is closed soon.
    while (isAnswerLost(await failureOf(link, "incr", "x")));
  });
});
