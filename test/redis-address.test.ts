/** The address in `--queue`: its forms, passwords with any characters, and errors without any part of a password. */
import { describe, expect, test } from "bun:test";
import { parseRedisAddress, redisClient } from "../src/predictions/redis/redis-address.ts";
import { fixture } from "./helpers/fixture.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";

describe("the address of a queue", () => {
  test("is one server, a socket, Sentinels or a Cluster", () => {
    expect(parseRedisAddress("redis://user:p%40ss@host:1234/5")).toEqual({
      nodes: [],
      options: { host: "host", port: 1234, username: "user", password: "p@ss", db: 5 },
    });
    expect(parseRedisAddress("redis:///run/redis.sock").options).toEqual({ path: "/run/redis.sock" });
    expect(parseRedisAddress("rediss-sentinel://:secret@a,[::1]:27000/main/1").options).toEqual({
      sentinels: [
        { host: "a", port: 26379 },
        { host: "::1", port: 27000 },
      ],
      name: "main",
      password: "secret",
      db: 1,
      tls: {},
      sentinelTLS: {},
      enableTLSForSentinelMode: true,
    });
    expect(parseRedisAddress("redis-cluster://a:1,b:2").nodes).toEqual([
      { host: "a", port: 1 },
      { host: "b", port: 2 },
    ]);
  });

  test.each([
    ["redis://a,b", "several hosts"],
    ["redis-sentinel://a", "master's name"],
    ["redis://", "host is missing"],
    ["redis://a/x", "expected a number"],
    ["rediss://a?ca=/nowhere", "ca cannot be read"],
  ])("%s is refused with the reason", (address, why) => {
    expect(() => parseRedisAddress(address)).toThrow(why);
  });

  test.each([
    "redis://a?b=c",
    "redis://a b",
    "redis://:s3cr?t@a:port",
    "redis-sentinel://:s3cr/t@a/main/s3cr",
    "http://s3cr",
  ])("%s is refused without any part of it", (address) => {
    const refused = () => parseRedisAddress(address);
    expect(refused).toThrow("--queue");
    expect(refused).not.toThrow(/s3cr/);
  });

  test("of Sentinels has their password in any form", () => {
    const of = (query: string) => parseRedisAddress(`redis-sentinel://:p@a/main?${query}`).options;
    expect(of("sentinel_username=u&sentinel_password=a+b%40c:100%/d")).toMatchObject({
      sentinelUsername: "u",
      sentinelPassword: "a+b@c:100%/d",
    });
    expect(of("sentinel_password=%26%2541")).toMatchObject({ sentinelPassword: "&%41" });
  });
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
      const client = redisClient(parseRedisAddress(`redis://${login}@${path}`), { retryStrategy: () => null });
      const failure = Promise.withResolvers<never>();
      client.on("error", failure.reject);
      expect(await Promise.race([client.ping(), failure.promise])).toBe("PONG");
      client.disconnect();
    }
  });
});
