/** The queue's Lua scripts, run by workers whose leases have expired. */
import { describe, expect, test } from "bun:test";
import type { Queue } from "../src/predictions/redis/queue.ts";
import { fixture } from "./helpers/fixture.ts";
import { endOf, queueOn, requestOf } from "./helpers/queue.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { until } from "./helpers/running.ts";

describe.skipIf(!hasRedis)(`a queue (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);

  /** A worker whose leases expire at once, so that others may take over its predictions. */
  async function worker(name: string, node: string, url = redis.url) {
    const opened = await queueOn(url, name, { node, leaseMs: 0 });
    const figures = async (isWorker = false) => {
      const { figures, isFull } = await opened.queue.poll(isWorker);
      return { ...figures, isFull };
    };
    return { ...opened, figures };
  }

  const reclaim = ({ queue }: { queue: Queue }) => queue.reclaim(10);
  const renewed = ({ queue }: { queue: Queue }) => queue.renew({ id: "p", bytes: 0 });

  test("counts its workers from their start until they leave", async () => {
    using one = await worker("counted", "a");
    using other = await worker("counted", "b");
    expect(await one.figures(true)).toMatchObject({ workers: 1 });
    expect(await other.figures()).toMatchObject({ workers: 1 });
    expect(await other.figures(true)).toMatchObject({ workers: 2 });
    await one.figures();
    expect(await other.figures(true)).toMatchObject({ workers: 1 });
  });

  test("keeps the first outcome, whichever worker reports it", async () => {
    using first = await worker("first", "a");
    using second = await worker("first", "b");
    await first.queue.create(requestOf());
    const [taken] = await first.take();
    expect(await taken?.load()).toMatchObject({ id: "p", origin: { requestId: "r" } });
    expect(await reclaim(second)).toHaveLength(1);
    expect(await renewed(first)).toBe("lost");
    await first.queue.finish(endOf('"outputs":[1]'));
    await second.queue.finish(endOf('"outputs":[2]'));
    const record = await second.queue.read("p");
    expect(record).toMatchObject({ itemsDone: 1, outcome: { status: "success", members: '"outputs":[1]' } });
    expect(await first.figures()).toMatchObject({
      items: 0,
      ended: 1,
      waiting: 0,
      taken: 0,
    });
  });

  test("counts the workers that ended while they had a prediction; lost answers and returned predictions do not count", async () => {
    const workers = await Promise.all(["a", "b", "c"].map((node) => worker("third", node)));
    using stack = new DisposableStack();
    const [first, second, third] = workers.map((each) => stack.use(each));
    if (first === undefined || second === undefined || third === undefined) throw new Error("no workers");
    await first.queue.create(requestOf());
    await first.take();
    await first.queue.giveBack(["p"]);
    expect(await first.take()).toMatchObject([{ deaths: 0 }]);
    // The first worker receives the same prediction a second time.
    expect(await reclaim(first)).toMatchObject([{ deaths: 0 }]);
    expect(await reclaim(second)).toMatchObject([{ deaths: 1 }]);
    await second.queue.giveBack(["p"]);
    expect(await second.take()).toMatchObject([{ deaths: 1 }]);
    expect(await reclaim(third)).toMatchObject([{ deaths: 2 }]);
  });

  test("returns more predictions than one script takes", async () => {
    using one = await worker("many", "a");
    const ids = Array.from({ length: 9000 }, (_, i) => `p${i}`);
    await Promise.all(ids.map((id) => one.queue.create(requestOf(id))));
    while ((await one.figures()).waiting > 0) await one.take(1000);
    await one.queue.giveBack(ids);
    expect(await one.figures()).toMatchObject({ waiting: 9000, taken: 0 });
  });

  test("loses no unfinished prediction in a full Redis that evicts by time to live, and takes new ones", async () => {
    await using full = await startRedis("--maxmemory-policy", "volatile-ttl");
    using one = await worker("evicted", "a", full.url);
    await one.queue.create(requestOf("first"));
    const used = Number(/used_memory:(\d+)/.exec(await full.client.info("memory"))?.[1]);
    await full.client.config("SET", "maxmemory", `${used + 2 ** 21}`);
    const members = JSON.stringify("x".repeat(10_000));
    for (let i = 0; i < 500; i++) {
      expect(await one.queue.create(requestOf(`${i}`))).toHaveProperty("createdAtMs");
      await one.queue.finish(endOf(members, `${i}`));
    }
    const read = (id: string) => one.queue.read(id);
    expect([(await read("0"))?.id, (await read("499"))?.id, (await read("first"))?.id]).toEqual([
      undefined,
      "499",
      "first",
    ]);
    expect(await one.figures()).toMatchObject({ items: 1, waiting: 1, isFull: false });
    expect(await one.take()).toMatchObject([{ id: "first" }]);
  });

  test("delivers a large body with its prediction, and deletes it after the run", async () => {
    using one = await worker("bodies", "a");
    const body = JSON.stringify("x".repeat(100_000));
    await one.queue.create(requestOf("p", body));
    const [taken] = await one.take();
    expect(await taken?.load()).toMatchObject({ id: "p", body, origin: { requestId: "r" } });
    expect(await redis.client.hstrlen("sconce:11:{bodies}:p:p", "body")).toBe(body.length);
    await one.queue.finish(endOf('"outputs":[1]'));
    expect(await redis.client.hexists("sconce:11:{bodies}:p:p", "body")).toBe(0);
  });

  test("notifies a node of outcomes, also after a broken connection", async () => {
    const messages: string[] = [];
    using opened = await queueOn(redis.url, "told", { node: "told", onMessage: (kind) => messages.push(kind) });
    const { queue } = opened;
    for (const id of ["one", "two"]) {
      await until(async () => (await redis.client.pubsub("NUMSUB", "told"))[1] === 1);
      await queue.create({ ...requestOf(id), isWaitedFor: true });
      await queue.finish(endOf('"outputs":[1]', id));
      await until(() => messages.length > 0);
      expect(messages.splice(0)).toEqual(["ended"]);
      await redis.client.call("client", "kill", "type", "pubsub");
    }
  });

  test("stores outcomes and leases whole after Redis has withdrawn the right to notify nodes", async () => {
    await using own = await startRedis();
    using one = await worker("muted", "a", own.url);
    for (const id of ["p", "q"]) await one.queue.create({ ...requestOf(id), isWaitedFor: true, isWatched: true });
    await one.take();
    await own.client.call("acl", "setuser", "default", "resetchannels");
    const page = { name: "log", from: 0, events: [null] };
    const progress = { startedAtMs: 1, logs: "said", page };
    expect(await one.queue.renew({ id: "p", bytes: 0, progress })).toBe("watched");
    await one.queue.finish(endOf('"outputs":[1]', "q"));
    await expect(one.figures()).rejects.toMatchObject({ code: "queue_unavailable" });
    await own.client.call("acl", "setuser", "default", "allchannels");
    expect(await one.figures()).toMatchObject({ items: 1, ended: 1, waiting: 0, taken: 1 });
    expect((await one.queue.read("p"))?.logs).toBe("said");
    expect(await own.client.keys("*:e:p")).toHaveLength(1);
  });

  test("ignores the outcome of a deleted prediction", async () => {
    using one = await worker("gone", "a");
    await one.queue.create(requestOf());
    await one.take();
    await redis.client.del("sconce:11:{gone}:p:p");
    await one.queue.finish(endOf('"outputs":[1]'));
    expect(await redis.client.keys("*{gone}:p:*")).toEqual([]);
  });
});
