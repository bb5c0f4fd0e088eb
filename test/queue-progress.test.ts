/** Replicas read the progress of predictions from the queue, although Redis fails at times. */
import { describe, expect, test } from "bun:test";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { pendingRecord } from "../src/predictions/record.ts";
import { ClaimedPredictions } from "../src/predictions/redis/claimed-predictions.ts";
import { Queue } from "../src/predictions/redis/queue.ts";
import { QueueDirectory } from "../src/predictions/redis/queue-directory.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { redisLinks } from "./helpers/redis-links.ts";

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
    const claims = new ClaimedPredictions(new QueueDirectory(queue), new MemoryAccount());
    const { requests } = await queue.claim(links.link, 1, 1);
    for (const request of requests) claims.add(request, 1);

    let logs = "";
    const said = (more: string) => {
      logs += more;
      return claims.progress(() => ({ ...pendingRecord({ ...demo, createdAtMs: 0 }), logs }));
    };
    const first = said("öne\n");
    await queue.reportProgress(first);
    claims.progressReported(first);
    // The next two reports fail: the first does not arrive, and the answer to the second is lost.
    expect(said("two\n")).toMatchObject([{ logBytes: 5, logs: "two\n" }]);
    await queue.reportProgress(said("three\n"));
    const last = said("four\n");
    await queue.reportProgress(last);
    claims.progressReported(last);
    expect((await queue.read("p", { isAwaited: false }))?.logs).toBe("öne\ntwo\nthree\nfour\n");
    expect(said("")).toEqual([]);
  });
});
