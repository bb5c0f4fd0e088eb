/** Errors of a Redis connection say whether Redis may have executed the command. */
import { describe, expect, test } from "bun:test";
import { isAnswerLost, type RedisLink } from "../src/predictions/redis/redis-link.ts";
import { queueOn } from "./helpers/queue.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";

describe.skipIf(!hasRedis)(`a failed command (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const failureOf = (link: RedisLink, ...command: [string, ...string[]]) =>
    link.call(...command).catch((error) => error);

  test("may have been executed only if it was sent", async () => {
    await using redis = await startRedis();
    using opened = await queueOn(redis.url, "failures");
    const { link } = opened.queue;
    expect(isAnswerLost(await failureOf(link, "incr"))).toBe(false);
    redis.pause();
    expect(isAnswerLost(await failureOf(link, "incr", "x"))).toBe(true);
    await redis.stop();
    // Repeats until a command fails before it is sent. Then the client has noticed that the connection is closed.
    while (isAnswerLost(await failureOf(link, "incr", "x")));
  });
});
