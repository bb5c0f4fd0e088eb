/** Replicas read the progress of predictions from the queue, although Redis fails at times. */
import { describe, expect, test } from "bun:test";
import { leasesOf } from "./helpers/leases.ts";
import { livePrediction } from "./helpers/live.ts";
import { queueOn, requestOf } from "./helpers/queue.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { until } from "./helpers/running.ts";

describe.skipIf(!hasRedis)(`the logs of a demo (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  test("are complete in the queue although messages and answers were lost", async () => {
    await using redis = await startRedis();
    using opened = await queueOn(redis.url, "logs");
    const { queue } = opened;
    await queue.create(requestOf("p", "[1]", { kind: "demo" }));
    await using claimer = leasesOf(queue);
    await claimer.claim();
    const live = livePrediction({ id: "p", kind: "demo" });
    claimer.leases.report(live);
    const logs = async () => (await queue.read("p"))?.logs;
    live.addLog("öne\n");
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
    live.addLog("two\n");
    await until(async () => (await logs()) === "öne\ntwo\n");
    live.addLog("three\n");
    await until(async () => (await logs()) !== "öne\ntwo\n");
    expect(await logs()).toBe("öne\ntwo\nthree\n");
    expect(faults).toEqual([]);
  });
});
