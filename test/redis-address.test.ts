/** The address in `--queue`: its forms, passwords with any characters, and errors without any part of a password. */
import { describe, expect, test } from "bun:test";
import { Redis } from "ioredis";
import { parseRedisAddress } from "../src/predictions/redis/redis-address.ts";
import { fixture } from "./helpers/fixture.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";

describe("the address of a queue", () => {
  test("is a server or a socket", () => {
    const all = { host: "host", port: 1234, username: "user", password: "p@ss", db: 5 };
    expect(parseRedisAddress("redis://user:p%40ss@host:1234/5")).toEqual(all);
    expect(parseRedisAddress("rediss://:secret@[::1]")).toEqual({
      host: "::1",
      port: 6379,
      password: "secret",
      tls: {},
    });
    expect(parseRedisAddress("redis:///run/redis.sock")).toEqual({ path: "/run/redis.sock" });
  });

  test.each([
    ["redis://", "host is missing"],
    ["redis://a/x", "expected a number"],
    ["rediss://a?ca=/nowhere", "ca cannot be read"],
  ])("%s is refused with the reason", (address, why) => {
    expect(() => parseRedisAddress(address)).toThrow(why);
  });

  test.each(["redis://a?b=c", "redis://a b", "redis://:s3cr?t@a:port", "redis://a,s3cr", "http://s3cr"])(
    "%s is refused without any part of it",
    (address) => {
      const refused = () => parseRedisAddress(address);
      expect(refused).toThrow("--queue");
      expect(refused).not.toThrow(/s3cr/);
    },
  );
});

describe.skipIf(!hasRedis)(`the login of a queue (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);

  test.each([
    "a:b",
    ":",
    "100%",
    "%",
    "50%zz",
    "a/b",
    "/",
    "a@b",
    "@host",
    "a@1/2",
    "x?ca=y",
    "#1",
    "a b",
    "ä+%C3",
    "p&q=r,s",
  ])("may have the password %s, as it is or percent-encoded", async (password) => {
    await redis.client.config("SET", "requirepass", password);
    await redis.client.call("acl", "setuser", "us:er", "reset", "on", `>${password}`, "+ping", "+info");
    const path = redis.url.slice("redis://".length);
    const logins = [`:${password}`, `:${encodeURIComponent(password)}`, `us%3Aer:${password}`];
    for (const login of logins) {
      const client = new Redis({ ...parseRedisAddress(`redis://${login}@${path}`), retryStrategy: () => null });
      const failure = Promise.withResolvers<never>();
      client.on("error", failure.reject);
      expect(await Promise.race([client.ping(), failure.promise])).toBe("PONG");
      client.disconnect();
    }
  });
});
