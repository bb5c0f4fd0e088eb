/** Events of a running prediction in Redis: reports of the replica that runs it, and reads of the replicas with event streams. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { MemoryAccount } from "../src/server/memory/memory-account.ts";
import { LivePrediction } from "../src/server/predictions/live.ts";
import { PartLog } from "../src/server/predictions/part-log.ts";
import { AwaitedEvents } from "../src/server/queue/awaited-events.ts";
import { ClaimedPredictions } from "../src/server/queue/claimed-predictions.ts";
import { EventReports } from "../src/server/queue/event-reports.ts";
import { Queue } from "../src/server/queue/queue.ts";
import { QueueDirectory } from "../src/server/queue/queue-directory.ts";
import { hasRedis, startRedis, type TestRedis } from "./helpers/redis.ts";
import { redisLinks } from "./helpers/redis-links.ts";

describe.skipIf(!hasRedis)(`events in a queue (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  let redis: TestRedis;

  beforeAll(async () => {
    redis = await startRedis();
  });

  afterAll(() => redis?.[Symbol.asyncDispose]());

  const id = "prediction";
  const kind = "prediction" as const;
  const origin = { requestId: "r", traceId: undefined, spanId: undefined };

  /** A replica that has claimed the prediction, with its parts. */
  async function claimed(name: string) {
    const links = await redisLinks(redis.url);
    const memory = new MemoryAccount();
    const open = (queueName: string) =>
      new Queue({
        ...links,
        name: queueName,
        node: "worker",
        leaseMs: 60_000,
        retention: { ms: 60_000, bytes: 1e6 },
        timeoutMs: 60_000,
        limits: { maxQueuedItems: 10, maxQueuedBytes: 1000 },
      });
    const directory = new QueueDirectory({ ...links, repository: name, name, lifetimeS: 60, open });
    const queue = directory.own;
    await queue.makeGroup();
    const request = { id, kind, count: 2, timeoutMs: 60_000, body: "[1,2]", isWaitedFor: false, origin };
    await queue.create({ ...request, bytes: 5 });
    const claims = new ClaimedPredictions(directory, memory);
    for (const each of (await queue.claim(links.link, 1, 1)).requests) claims.add(each, 1);
    const parts = new PartLog(memory.add("outputs", 0));
    const live = new LivePrediction({
      request: { ...request, createdAtMs: 0 },
      bytes: 5,
      charge: memory.add("bodies", 5),
      deadlineMs: Number.POSITIVE_INFINITY,
      parts,
      onEnd: () => {},
    });
    const add = (index: number, text: string) => {
      parts.add(index, text);
      live.partAdded();
    };
    const reader = new AwaitedEvents(id, memory, () => {});
    return { queue, memory, claims, live, parts, add, reader, [Symbol.dispose]: () => links[Symbol.dispose]() };
  }

  const scriptCalls = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.client.info("commandstats"))?.[1] ?? 0);
  const partsOf = ({ parts }: AwaitedEvents) =>
    Array.from({ length: parts?.length ?? 0 }, (_, position) => parts?.at(position)).filter(
      (part) => part !== undefined,
    );

  test("have one report in flight, and the next report has all parts that came meanwhile", async () => {
    using replica = await claimed("slow");
    const { queue, live, add, reader } = replica;
    await reader.read(queue.events);
    const reports = new EventReports(queue.events);
    add(0, '"first"');
    reports.add(live);
    await reports.flush([id]);
    const before = await scriptCalls();
    redis.pause();
    const texts = Array.from({ length: 20 }, (_, i) => `"${i}"`);
    const flushes = texts.map((text) => {
      add(0, text);
      return reports.flush([id]);
    });
    redis.resume();
    await Promise.all(flushes);
    expect((await scriptCalls()) - before).toBe(2);
    await reader.read(queue.events);
    expect(partsOf(reader).map(({ text }) => text)).toEqual(['"first"', ...texts]);
    reports.remove(id);
  });

  test("are read again after a notification during a read that found none", async () => {
    using replica = await claimed("early");
    const { queue, reader } = replica;
    const read = reader.read(queue.events);
    const events = [{ index: 1, sequence: undefined, text: '"y"' }];
    const reported = queue.events.report(id, { name: "log", from: 0, events });
    const again = reader.read(queue.events);
    expect(await reported).toBe(1);
    await Promise.all([read, again]);
    expect(reader.outputs[1]).toBe('"y"');
  });

  test("are read with one command, which tells their number", async () => {
    using replica = await claimed("count");
    const { queue, reader } = replica;
    await reader.read(queue.events);
    await queue.events.report(id, { name: "log", from: 0, events: [{ index: 0, sequence: 0, text: "1" }] });
    const before = await scriptCalls();
    await reader.read(queue.events);
    expect(partsOf(reader)).toHaveLength(1);
    expect((await scriptCalls()) - before).toBe(1);
  });

  test("have null as a part, and leave out parts of an input that ran again before their report", async () => {
    using replica = await claimed("void");
    const { queue, live, parts, add, reader } = replica;
    await reader.read(queue.events);
    const reports = new EventReports(queue.events);
    // One report has at most 500 events.
    for (let i = 0; i < 501; i++) add(1, "null");
    reports.add(live);
    const flushed = reports.flush([id]);
    parts.restart(1);
    add(1, "null");
    add(1, '"two"');
    await Promise.all([flushed, reports.flush([id])]);
    await reader.read(queue.events);
    expect(partsOf(reader)).toEqual([
      { index: 1, sequence: 0, text: "null" },
      { index: 1, sequence: 1, text: '"two"' },
    ]);
    expect(reader.parts?.length).toBe(502);
    reports.remove(id);
  });

  test("free the parts of a prediction that another replica runs", async () => {
    using replica = await claimed("dropped");
    const { claims, live, parts, add } = replica;
    parts.charge.grow(100);
    add(0, "1");
    claims.events.add(live);
    live.end("Canceled", "canceled");
    expect(parts.charge.bytes).toBe(100);
    claims.drop(id);
    expect(parts.charge.bytes).toBe(0);
  });

  test("start over with the outputs of the replica that runs the prediction again", async () => {
    using replica = await claimed("again");
    const { queue, memory, reader } = replica;
    const output = (index: number) => ({ index, sequence: undefined, text: '"y"' });
    await queue.events.report(id, { name: "first", from: 0, events: [output(0), output(1)] });
    await reader.read(queue.events);
    const held = memory.parts.outputs;
    await queue.events.report(id, { name: "second", from: 0, events: [output(1)] });
    await reader.read(queue.events);
    expect([reader.outputs[0], reader.outputs[1]]).toEqual([undefined, '"y"']);
    expect(memory.parts.outputs).toBe(held / 2);
  });
});
