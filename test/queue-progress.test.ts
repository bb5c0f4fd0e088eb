/** Replicas read the progress of predictions from the queue, although Redis fails at times. */
import { describe, expect, test } from "bun:test";
import { Queue } from "../src/predictions/redis/queue.ts";
import { leasesOf } from "./helpers/leases.ts";
import { livePrediction } from "./helpers/live.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { redisLinks } from "./helpers/redis-links.ts";
import { until } from "./helpers/running.ts";

describe.skipIf(!hasRedis)(`the logs of a demo (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  test("are complete in the queue although messages and answers were lost", async () => {
    await using redis = await startRedis();
    using links = await redisLinks(redis.url);
    const limits = { maxQueuedItems: 10, maxQueuedBytes: 1000 };
    const names = { repository: "lab", name: "logs", node: "a" };
    const queue = new Queue({ ...links, ...names, leaseMs: 60_000, retentionMs: 60_000, limits });
    await queue.makeGroup();
    const origin = { requestId: "r", traceId: undefined, spanId: undefined };
    const demo = { id: "p", kind: "demo", count: 1, timeoutMs: 60_000 } as const;
    await queue.create({ ...demo, bytes: 3, body: "[1]", isWaitedFor: false, origin });
    await using claimer = leasesOf(queue, redis.url);
    await claimer.claim();
    const live = livePrediction({ id: "p", kind: "demo" });
    claimer.leases.report(live);
    const logs = async () => (await queue.read("p"))?.logs;
    live.log("öne\n");
    await until(async () => (await logs()) === "öne\n");

    // The next two reports fail: the first does not arrive, and the answer to the second is lost.
    const report = queue.renew.bind(queue);
    const faults: (typeof report)[] = [
      () => Promise.reject(new Error("not sent")),
      async (reports) => {
        await report(reports);
        throw new Error("no answer");
      },
    ];
    queue.renew = (reports) => (faults.shift() ?? report)(reports);
    live.log("two\n");
    await until(async () => (await logs()) === "öne\ntwo\n");
    live.log("three\n");
    await until(async () => (await logs()) !== "öne\ntwo\n");
    expect(await logs()).toBe("öne\ntwo\nthree\n");
    expect(faults).toEqual([]);
  });
});
