/**
 * Events of a running prediction in Redis: the replica that runs the prediction reports them, and replicas with event
 * streams read them.
 */
import { describe, expect, test } from "bun:test";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { LivePrediction } from "../src/predictions/live.ts";
import { PartLog } from "../src/predictions/part-log.ts";
import { AwaitedEvents } from "../src/predictions/redis/awaited-events.ts";
import { EventReport } from "../src/predictions/redis/event-report.ts";
import { Queue } from "../src/predictions/redis/queue.ts";
import { parseRedisAddress } from "../src/predictions/redis/redis-address.ts";
import { RedisLink } from "../src/predictions/redis/redis-link.ts";
import { fixture } from "./helpers/fixture.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { redisLinks } from "./helpers/redis-links.ts";

describe.skipIf(!hasRedis)(`events in a queue (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);

  const id = "prediction";
  const kind = "prediction" as const;
  const origin = { requestId: "r", traceId: undefined, spanId: undefined };

  /** A replica that has claimed the prediction and reports its parts, and a reader on another replica. */
  async function claimed(name: string) {
    const links = await redisLinks(redis.url);
    const memory = new MemoryAccount();
    const limits = { maxQueuedItems: 10, maxQueuedBytes: 1000 };
    const names = { repository: name, name, node: "worker" };
    const queue = new Queue({ ...links, ...names, leaseMs: 60_000, retentionMs: 60_000, limits });
    await queue.makeGroup();
    const request = { id, kind, count: 2, timeoutMs: 60_000, body: "[1,2]", isWaitedFor: false, origin };
    await queue.create({ ...request, bytes: 5 });
    await queue.claim(links.link, 1, 1);
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
    const read = () => reader.read(queue.events);
    const dispose = () => links[Symbol.dispose]();
    return { queue, memory, live, parts, add, reader, read, [Symbol.dispose]: dispose };
  }

  const scriptCalls = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.client.info("commandstats"))?.[1] ?? 0);
  const partsOf = ({ parts }: AwaitedEvents) =>
    Array.from({ length: parts?.length ?? 0 }, (_, position) => parts?.at(position)).filter(
      (part) => part !== undefined,
    );

  test("have one report in flight; the next report has all parts that came meanwhile", async () => {
    using replica = await claimed("slow");
    const { queue, live, add, reader, read } = replica;
    await read();
    add(0, '"first"');
    using report = new EventReport(live, queue.events);
    await report.flush();
    const before = await scriptCalls();
    redis.pause();
    const texts = Array.from({ length: 20 }, (_, i) => `"${i}"`);
    const flushes = texts.map((text) => {
      add(0, text);
      return report.flush();
    });
    redis.resume();
    await Promise.all(flushes);
    expect((await scriptCalls()) - before).toBeLessThanOrEqual(2);
    await read();
    expect(partsOf(reader).map(({ text }) => text)).toEqual(['"first"', ...texts]);
  });

  test("are read again if a notification arrives during a read that found none", async () => {
    using replica = await claimed("early");
    const { queue, reader, read } = replica;
    const first = read();
    const events = [{ index: 1, sequence: undefined, text: '"y"' }];
    const reported = queue.events.report(id, { name: "log", from: 0, events });
    const again = read();
    expect(await reported).toBe(1);
    await Promise.all([first, again]);
    expect(reader.outputs[1]).toBe('"y"');
  });

  test("are read with one command if a notification says how many there are", async () => {
    using replica = await claimed("count");
    const { queue, reader, read } = replica;
    await read();
    await queue.events.report(id, { name: "log", from: 0, events: [{ index: 0, sequence: 0, text: "1" }] });
    const before = await scriptCalls();
    await read();
    expect(partsOf(reader)).toHaveLength(1);
    expect((await scriptCalls()) - before).toBe(1);
  });

  test("can have null as a part, and leave out parts of an input that ran again before they were reported", async () => {
    using replica = await claimed("void");
    const { queue, live, parts, add, reader, read } = replica;
    await read();
    // More events than the 500 that fit in one report.
    for (let i = 0; i < 501; i++) add(1, "null");
    using report = new EventReport(live, queue.events);
    const flushed = report.flush();
    parts.restart(1);
    add(1, "null");
    add(1, '"two"');
    await Promise.all([flushed, report.flush()]);
    await read();
    expect(partsOf(reader)).toEqual([
      { index: 1, sequence: 0, text: "null" },
      { index: 1, sequence: 1, text: '"two"' },
    ]);
  });

  test("free the memory of parts if another replica runs the prediction", async () => {
    using replica = await claimed("dropped");
    const { queue, live, parts, add } = replica;
    parts.charge.grow(100);
    add(0, "1");
    const report = new EventReport(live, queue.events);
    live.end("Canceled", "canceled");
    expect(parts.charge.bytes).toBe(100);
    report[Symbol.dispose]();
    expect(parts.charge.bytes).toBe(0);
  });

  test("are reported from the first one on, once a replica watches the prediction", async () => {
    using replica = await claimed("unwatched");
    const { queue, live, add, reader, read } = replica;
    using link = new RedisLink({ address: parseRedisAddress(redis.url), use: "blocking", onFault: () => {} });
    queue.mail.listen({ watched: () => report.watched() });
    using mail = queue.mail;
    void mail.read(link);
    add(0, '"one"');
    using report = new EventReport(live, queue.events);
    await report.flush();
    add(0, '"two"');
    await report.flush();
    expect(await redis.client.keys("*{unwatched}:e:*")).toEqual([]);
    while (partsOf(reader).length < 2) await read();
    expect(partsOf(reader).map(({ text }) => text)).toEqual(['"one"', '"two"']);
  });

  test("are refused by a Redis that is full, and reported again when it has memory", async () => {
    using replica = await claimed("full");
    const { queue, live, add, reader, read } = replica;
    await read();
    await redis.client.config("SET", "maxmemory", "1");
    add(0, '"one"');
    using report = new EventReport(live, queue.events);
    await report.flush();
    await read();
    expect(partsOf(reader)).toEqual([]);
    await redis.client.config("SET", "maxmemory", "0");
    while (partsOf(reader).length < 1) await read();
    await redis.client.config("SET", "maxmemory", "1");
    add(0, '"two"');
    await report.flush();
    await read();
    expect(partsOf(reader)).toHaveLength(1);
    await redis.client.config("SET", "maxmemory", "0");
    while (partsOf(reader).length < 2) await read();
  });

  test("have a limit of bytes in Redis: a reader that falls behind gets no more of them, and other readers get all", async () => {
    using replica = await claimed("large");
    const { queue, memory, reader, read } = replica;
    const text = JSON.stringify("x".repeat(2 ** 22));
    const slow = new AwaitedEvents(id, memory, () => {});
    const readSlowly = () => slow.read(queue.events);
    await readSlowly();
    for (let i = 0; i < 6; i++) {
      await queue.events.report(id, { name: "log", from: i, events: [{ index: 0, sequence: i, text }] });
      await read();
      if (i === 0) await readSlowly();
    }
    const kept = await redis.client.xrange("sconce:8:{large}:e:prediction", "-", "+");
    const lengths = kept.map(([, fields]) => fields.join("").length);
    expect(lengths.reduce((sum, length) => sum + length)).toBeLessThan(2 ** 24 + 100);
    expect(partsOf(reader).map(({ sequence }) => sequence)).toEqual([0, 1, 2, 3, 4, 5]);
    await readSlowly();
    expect(partsOf(slow).map(({ sequence }) => sequence)).toEqual([0]);
  });

  test("start again with the outputs of the replica that runs the prediction again", async () => {
    using replica = await claimed("again");
    const { queue, memory, reader, read } = replica;
    await read();
    const output = (index: number) => ({ index, sequence: undefined, text: '"y"' });
    await queue.events.report(id, { name: "first", from: 0, events: [output(0), output(1)] });
    await read();
    const held = memory.parts.outputs;
    await queue.events.report(id, { name: "second", from: 0, events: [output(1)] });
    await read();
    expect([reader.outputs[0], reader.outputs[1]]).toEqual([undefined, '"y"']);
    expect(memory.parts.outputs).toBe(held / 2);
  });
});
