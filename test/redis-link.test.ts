/** Errors of a Redis connection say whether Redis may have executed the command. */
import { describe, expect, test } from "bun:test";
import { isAnswerLost, type RedisLink } from "../src/predictions/redis/redis-link.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { redisLinks } from "./helpers/redis-links.ts";

describe.skipIf(!hasRedis)(`a failed command (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const failureOf = (link: RedisLink, ...command: [string, ...string[]]) =>
    link.call(...command).catch((error) => error);

  test("may have been executed only if it was sent", async () => {
    await using redis = await startRedis();
    using links = await redisLinks(redis.url);
    const { link } = links;
    expect(isAnswerLost(await failureOf(link, "incr"))).toBe(false);
    redis.pause();
    expect(isAnswerLost(await failureOf(link, "incr", "x"))).toBe(true);
    await redis.stop();
    // Repeats until a command fails before it is sent. Then the client has noticed that the connection is closed.
    while (isAnswerLost(await failureOf(link, "incr", "x")));
  });
});
