/**
 * Replicas whose queue or other replicas fail: clients get an answer at once, accepted predictions are not lost, and
 * no input runs too often.
 */
import { describe, expect, test } from "bun:test";
import { clientOf } from "../helpers/cli.ts";
import { problemOf } from "../helpers/client.ts";
import { fixture } from "../helpers/fixture.ts";
import { hold } from "../helpers/hold.ts";
import { hasRedis, startRedis } from "../helpers/redis.ts";
import { until } from "../helpers/running.ts";
import { storeWith, type TestServer } from "../helpers/server.ts";

describe.skipIf(!hasRedis)(`replicas (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(() => startRedis("--appendonly", "yes"));
  const store = fixture(() => storeWith("lab", "stage"));

  /** With this setting a replica prepares one input at a time. */
  const narrow = { maxReadyBytes: 1 };
  const unavailable = { status: 503, type: "urn:sconce:problem:queue_unavailable" };

  const read = ({ client }: TestServer, id: string, headers = {}) => client.fetch(`/predictions/${id}`, { headers });

  test.each([
    {
      reason: "away",
      fail: () => redis.stop(),
      mend: () => redis.start(),
      async meanwhile(server: TestServer, id: string) {
        expect((await read(server, id)).status).toBe(503);
        expect((await server.client.fetch(`/predictions/${id}/cancel`, { method: "POST" })).status).toBe(503);
      },
    },
    {
      // Like a former master after a failover.
      reason: "readonly",
      fail: () => redis.client.replicaof("127.0.0.1", "1"),
      mend: () => redis.client.replicaof("NO", "ONE"),
    },
    {
      reason: "full",
      detail: "the queue of the replicas is full: Redis has reached its maxmemory",
      fail: () => redis.client.config("SET", "maxmemory", "1"),
      mend: () => redis.client.config("SET", "maxmemory", "0"),
      // Accepted predictions end although Redis is full, and later readers get them.
      async meanwhile(server: TestServer, id: string, release: () => void) {
        const later = read(server, id, { Prefer: "wait" });
        // Redis answers in order. It has answered this later read, so it has already told the server that a client waits.
        expect(await server.client.read(id)).toHaveProperty("status");
        release();
        expect(await (await later).json()).toMatchObject({ status: "success", outputs: [{ y: 5 }] });
      },
    },
  ])("accept nothing while the queue is $reason, and store the outcomes of the meantime", async (fault) => {
    const { reason, detail, fail, mend, meanwhile } = fault;
    await using server = await store.serve("lab", { queue: redis.url, queueName: reason });
    await using gate = hold();
    const waiting = server.client.predict([{ x: 1, before: gate.url("a") }]);
    const { prediction_id: id } = await server.client.create([{ x: 2, before: gate.url("b") }]);
    await Promise.all([gate.arrived("a"), gate.arrived("b")]);
    await fail();
    const refused = await server.client.post([{ x: 1 }]);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await refused.json()).toMatchObject(unavailable);
    await unready(server, detail);
    await meanwhile?.(server, id, () => gate.release("b"));
    for (const name of ["a", "b"]) gate.release(name);
    await until(async () => (await server.client.metric("sconce_predictions_active")) === 0);
    await mend();
    expect(await waiting).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
    expect(await server.client.end(id)).toMatchObject({ status: "success", outputs: [{ y: 5 }] });
    await server.client.ready();
    expect(await server.client.predict([{ x: 3 }])).toMatchObject({ outputs: [{ y: 7 }] });
    expect(await server.client.metric(`sconce_queue_faults_total{reason="${reason}"}`)).toBeGreaterThan(0);
  });

  test("refuse requests within two seconds while the queue hangs, and continue with a queue that was emptied", async () => {
    await using server = await store.serve("lab", { queue: redis.url, queueName: "hangs" });
    await using gate = hold();
    const { prediction_id: id } = await server.client.create([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    redis.pause();
    // A limit of two seconds. The test's timers and the server's are in one process, so a busy machine delays both.
    const limit = () => AbortSignal.timeout(2000);
    const [posted, read] = await Promise.all([
      server.client.post([{ x: 1 }], { Prefer: "wait" }, limit()),
      server.client.fetch(`/predictions/${id}`, { signal: limit() }),
    ]);
    gate.release("a");
    redis.resume();
    expect(await posted.json()).toMatchObject(unavailable);
    expect(read.status).toBe(503);
    expect(await server.client.metric('sconce_queue_faults_total{reason="timeout"}')).toBeGreaterThan(0);
    await server.client.ready();
    expect(await server.client.end(id)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
    await redis.client.flushall();
    expect(await accepted(server)).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
  });

  test("notify waiting clients within two seconds that the queue was emptied", async () => {
    await using front = await store.serve("lab", { queue: redis.url, queueName: "emptied", role: "front" });
    const waiting = front.client.post([{ x: 1 }], { Prefer: "wait" }, AbortSignal.timeout(2000));
    await until(async () => (await redis.client.xlen("sconce:11:{lab}:work:emptied")) !== 0);
    await redis.client.flushall();
    const response = await waiting;
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await response.json()).toMatchObject(unavailable);
  });

  test("refuse predictions that would wait longer than their client or their time limit, and accept others", async () => {
    await using front = await store.serve("lab", { queue: redis.url, queueName: "slow", role: "front", timeout: 300 });
    await front.client.create(Array.from({ length: 10 }, () => ({ x: 1 })));
    // No worker runs the first prediction, so the expected wait grows until it exceeds two seconds.
    const patience = { Prefer: "wait=2" };
    await until(async () => (await front.client.post([{ x: 1 }], patience)).status === 429);
    for (const headers of [patience, { "Cancel-After": "1" }]) {
      const refused = await front.client.post([{ x: 1 }], headers);
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
      expect(await refused.json()).toMatchObject({ status: 429 });
    }
    expect(await front.client.metric('sconce_requests_rejected_total{code="429",cause="time"}')).toBe(3);
    expect((await front.client.create([{ x: 1 }])).status).toBe("pending");
    await using short = await store.serve("lab", { queue: redis.url, queueName: "slow", role: "front", timeout: 2 });
    await until(async () => (await short.client.post([{ x: 1 }])).status === 429);
    expect(await redis.client.hget("sconce:11:{lab}:totals:slow", "items")).not.toBe("0");
  });

  test("share their limits; without a worker, predictions end on time and are canceled at once", async () => {
    const config = { queue: redis.url, queueName: "limits", role: "front", maxQueuedItems: 3 } as const;
    await using first = await store.serve("lab", config);
    await using second = await store.serve("lab", config);
    const late = await first.client.create([{ x: 1 }], { "Cancel-After": "0.2" });
    const { prediction_id: id } = await first.client.create([{ x: 1 }]);
    expect(await second.client.refused([{ x: 1 }, { x: 2 }])).toMatchObject({ status: 429 });
    expect(await second.client.end(late.prediction_id)).toMatchObject({
      error_message: expect.stringMatching(/ 0\.2 s$/),
    });
    const canceled = await second.client.cancel(id);
    expect(canceled).toMatchObject({ status: "failed", error_message: "Canceled" });
    expect(await first.client.read(id)).toEqual(canceled);
    expect((await first.client.create([{ x: 1 }, { x: 2 }])).status).toBe("pending");
  });

  test("that stop return predictions that have not started, and finish started ones", async () => {
    await using front = await store.serve("lab", { queue: redis.url, queueName: "stops", role: "front" });
    await using stopped = await store.serve("lab", { queue: redis.url, queueName: "stops", role: "worker", ...narrow });
    await using gate = hold();
    const begun = await front.client.create([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    const other = await front.client.create([{ x: 2 }]);
    await until(async () => (await stopped.client.metric("sconce_queue_deliveries_total")) >= 2);
    const stopping = stopped.stop();
    await using _other = await store.serve("lab", { queue: redis.url, queueName: "stops", role: "worker" });
    expect(await front.client.end(other.prediction_id)).toMatchObject({ status: "success", outputs: [{ y: 5 }] });
    expect((await front.client.read(begun.prediction_id)).status).not.toBe("failed");
    gate.release("a");
    await stopping;
    await until(async () => (await front.client.metric("sconce_queue_workers")) === 1);
    expect((await front.client.read(begun.prediction_id)).status).toBe("success");
  });

  test("answer waiting clients with the current state when the last worker stops", async () => {
    await using last = await store.serve("lab", { queue: redis.url, queueName: "last", ...narrow });
    await using gate = hold();
    const begun = last.client.predict([{ x: 1, before: gate.url("a") }]);
    await gate.arrived("a");
    const waiting = last.client.predict([{ x: 2 }]);
    await until(async () => (await last.client.metric("sconce_queue_deliveries_total")) >= 2);
    const stopping = last.stop();
    await until(async () => (await redis.client.xpending("sconce:11:{lab}:work:last", "workers"))[0] === 1);
    gate.release("a");
    expect((await begun).status).toBe("success");
    const { prediction_id: id, status } = await waiting;
    expect(status).toBe("pending");
    await stopping;
    await using next = await store.serve("lab", { queue: redis.url, queueName: "last" });
    expect(await next.client.end(id)).toMatchObject({ status: "success", outputs: [{ y: 5 }] });
  });

  test("take over the predictions of a killed replica once; a second kill fails them", async () => {
    const args = ["--queue", redis.url, "--queue-name", "kills", "--queue-lease", "1"];
    const worker = () => store.start(["lab", "--role", "worker", ...args]);
    const config = { queue: redis.url, queueName: "kills", queueLease: 1 };
    await using front = await store.serve("lab", { ...config, role: "front" });
    await using runs = countedRuns();
    await using first = worker();
    const lost = await front.client.create([{ x: 1, before: runs.url("deadly", Number.POSITIVE_INFINITY) }]);
    const saved = await front.client.create([{ x: 2, before: runs.url("innocent", 2) }]);
    await Promise.all([runs.reached("deadly", 1), runs.reached("innocent", 1)]);
    await using second = worker();
    await clientOf(second);
    first.kill("SIGKILL");
    expect(await front.client.end(saved.prediction_id)).toMatchObject({ status: "success", outputs: [{ y: 5 }] });
    await runs.reached("deadly", 2);
    second.kill("SIGKILL");
    await using _third = await store.serve("lab", { ...config, role: "worker" });
    const ended = await front.client.end(lost.prediction_id);
    expect(ended.error_message).toStartWith("Given up: 2 processes ended");
    expect(runs.counts).toEqual({ deadly: 2, innocent: 2 });
  });

  test("in the role front load no libtorch", async () => {
    const args = ["--role", "front", "--queue", redis.url];
    await using front = store.start(["lab", ...args]);
    await clientOf(front);
    const maps = await Bun.file(`/proc/${front.pid}/maps`).text();
    expect(maps).toContain("libc.so");
    expect(maps).not.toMatch(/torch|sconce\.node/);
  });
});

async function unready({ client }: TestServer, reason = "the queue of the replicas cannot be used"): Promise<void> {
  await until(async () => {
    const response = await client.fetch("/health/ready");
    if (response.ok) return false;
    expect((await problemOf(response)).detail).toBe(reason);
    return true;
  });
}

/** Sends a prediction until the server accepts it, and waits for its end. @returns the answer */
async function accepted({ client }: TestServer): Promise<unknown> {
  for (;;) {
    const response = await client.post([{ x: 1 }], { Prefer: "wait" });
    if (response.status !== 503) return response.json();
  }
}

/** A server that counts the requests for each name, and answers only from the request number `from` on. */
function countedRuns() {
  const counts: Record<string, number> = {};
  let waiters: (() => void)[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: async (request) => {
      const { pathname, searchParams } = new URL(request.url);
      const name = pathname.slice(1);
      const count = (counts[name] ?? 0) + 1;
      counts[name] = count;
      for (const wake of waiters.splice(0)) wake();
      if (count < Number(searchParams.get("from"))) await new Promise(() => {});
      return new Response("go on");
    },
  });
  return {
    counts,
    url: (name: string, from: number) => `${server.url}${name}?from=${from}`,
    reached: async (name: string, count: number) => {
      while ((counts[name] ?? 0) < count) await new Promise<void>((resolve) => waiters.push(resolve));
    },
    async [Symbol.asyncDispose]() {
      waiters = [];
      await server.stop(true);
    },
  };
}
