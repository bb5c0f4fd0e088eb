/** Another program writes to the keys of the queue: the log names each key, and the replicas continue. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RunningCli, startCli } from "../helpers/cli.ts";
import { Client } from "../helpers/client.ts";
import { hold } from "../helpers/hold.ts";
import { hasRedis, startRedis, type TestRedis } from "../helpers/redis.ts";
import { until } from "../helpers/running.ts";
import { storeWith, type TestStore } from "../helpers/server.ts";

describe.skipIf(!hasRedis)(`foreign values in the queue (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  let redis: TestRedis;
  let store: TestStore;
  let server: RunningCli;
  let client: Client;
  const base = "sconce:6:{shared}:";

  beforeAll(async () => {
    [redis, store] = await Promise.all([startRedis(), storeWith("lab")]);
    const args = ["-p", "0", "--host", "127.0.0.1", "--no-isolate", "--queue", redis.url, "--queue-name", "shared"];
    server = startCli(["serve", "lab", ...args], { env: { SCONCE_HOME: store.home } });
    const line = await server.line("http://");
    client = new Client(new URL(/http:\S+/.exec(line)?.[0] ?? ""));
    await until(async () => (await client.fetch("/health/ready")).ok);
  });

  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await store?.[Symbol.asyncDispose]();
    await redis?.[Symbol.asyncDispose]();
  });

  const named = (key: string, fault: string, seen: number) =>
    server.line(`Another program wrote to the queue: ${base}${key} ${fault}; sconce removed that`, seen);

  /** Key of the hash that has the prediction, without the prefix `base`. */
  const hashOf = (id: string) => `p:${id.slice(1, 5)}`;

  async function ended() {
    const { prediction_id: id } = await client.create([{ x: 1 }]);
    expect(await client.end(id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
    return id;
  }

  test.each([
    ["work", "stream"],
    ["soon", "zset"],
    ["kept", "list"],
    ["totals", "hash"],
    ["signs", "zset"],
  ])("a string in place of %s is removed, and new predictions run", async (key, type) => {
    await ended();
    const seen = server.lines.length;
    await redis.client.set(base + key, "foreign");
    await named(key, `was a string, expected a ${type}`, seen);
    await until(async () => (await client.fetch("/health/ready")).ok);
    // Redis has the stream again, with its consumer group, once a prediction ends.
    await until(async () => (await client.post([{ x: 1 }], { Prefer: "wait" })).ok);
    await ended();
  });

  test.each(["foreign", "~ foreign", "\n", "x prediction 1 1 1 soon"])(
    "an ended prediction overwritten with %j is not found",
    async (text) => {
      const id = await ended();
      const seen = server.lines.length;
      await redis.client.hset(base + hashOf(id), id, text);
      expect((await client.fetch(`/predictions/${id}`)).status).toBe(404);
      await named(hashOf(id), `held no record of ${id}`, seen);
      await ended();
    },
  );

  test("predictions are not found if their hash was replaced", async () => {
    const id = await ended();
    const seen = server.lines.length;
    await redis.client.set(base + hashOf(id), "foreign");
    expect((await client.fetch(`/predictions/${id}`)).status).toBe(404);
    await named(hashOf(id), "was a string, expected a hash", seen);
  });

  test("foreign progress of a running prediction is removed, and the prediction ends", async () => {
    await using gate = hold();
    const { prediction_id: id } = await client.create([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    const seen = server.lines.length;
    await redis.client.hset(`${base}t:${id}`, "started", "yesterday", "done", "many");
    expect(await (await client.fetch(`/predictions/${id}`)).json()).toMatchObject({ status: "pending" });
    await named(`t:${id}`, "held no progress", seen);
    gate.release("a");
    expect(await client.end(id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
  });

  test("foreign values of the totals are corrected", async () => {
    await ended();
    const seen = server.lines.length;
    await redis.client.hset(`${base}totals`, "items", "many", "bytes", "-");
    await named("totals", "held no numbers", seen);
    await ended();
    expect(await redis.client.hmget(`${base}totals`, "items", "bytes")).toEqual(["0", "0"]);
  });
});
