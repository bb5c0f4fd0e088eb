/**
 * Events of a running prediction in Redis: the replica that runs the prediction reports them, and replicas with event
 * streams read them.
 */
import { describe, expect, test } from "bun:test";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { FollowedPrediction } from "../src/predictions/redis/followed-prediction.ts";
import { Lease } from "../src/predictions/redis/lease.ts";
import { fixture } from "./helpers/fixture.ts";
import { livePrediction } from "./helpers/live.ts";
import { queueOn, requestOf } from "./helpers/queue.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";

describe.skipIf(!hasRedis)(`events in a queue (with redis-server${hasRedis ? "" : ": not here"})`, () => {
  const redis = fixture(startRedis);

  const id = "prediction";

  /** A replica that has claimed the prediction and reports its parts, and a reader on another replica. */
  async function claimed(name: string) {
    const { queue, take, [Symbol.dispose]: dispose } = await queueOn(redis.url, name);
    const memory = new MemoryAccount();
    const request = requestOf(id, "[1,2]", { count: 2 });
    await queue.create(request);
    const [taken] = await take();
    if (taken === undefined) throw new Error("nothing was claimed");
    const live = livePrediction({ id, count: 2, memory, hasParts: true });
    const { events } = live;
    const lease = new Lease(taken);
    lease.begin(live);
    const reader = () => new FollowedPrediction(id, { queue, memory, onUnused: () => {} }).shared();
    return {
      queue,
      memory,
      live,
      events,
      lease,
      reader,
      add(...texts: string[]) {
        for (const text of texts) events.addPart(0, text);
      },
      /** Reports all events. @param isAnswered whether the answer arrives */
      async report(isAnswered = true) {
        for (let due = lease.report(Number.POSITIVE_INFINITY); due !== undefined; due = lease.report(0)) {
          const state = await queue.renew(due);
          if (!isAnswered) return;
          lease.reported(due, state);
        }
      },
      [Symbol.dispose]: dispose,
    };
  }

  const partsOf = ({ events }: FollowedPrediction) =>
    Array.from({ length: events?.length ?? 0 }, (_, position) => events?.at(position)).filter(
      (part) => part !== undefined,
    );
  const textsOf = (reader: FollowedPrediction) => partsOf(reader).map(({ text }) => text);

  test("are in one page if they come together, and are read once although an answer was lost", async () => {
    using replica = await claimed("lost");
    using reader = replica.reader();
    await reader.readOutputs();
    replica.add('"first"', '"second"');
    await replica.report(false);
    replica.add('"third"');
    await replica.report();
    await reader.readEvents();
    expect(textsOf(reader)).toEqual(['"first"', '"second"', '"third"']);
    expect(await redis.client.xlen("sconce:11:{lost}:e:prediction")).toBe(2);
  });

  test("can have null as a part, and leave out parts of an input that ran again before they were reported", async () => {
    using replica = await claimed("void");
    using reader = replica.reader();
    await reader.readOutputs();
    // More events than fit in one page.
    replica.add(...Array.from({ length: 6000 }, () => "null"));
    const reported = replica.report();
    replica.events.restart(0);
    replica.add("null", '"two"');
    await reported;
    await reader.readEvents();
    expect(partsOf(reader)).toEqual([
      { index: 0, sequence: 0, text: "null" },
      { index: 0, sequence: 1, text: '"two"' },
    ]);
  });

  test("are no logs: these are complete in the queue although an answer was lost", async () => {
    using replica = await claimed("logs");
    // A replica that ended had run the prediction.
    await redis.client.hset("sconce:11:{logs}:p:prediction", "logs", "öld\n");
    for (const [line, isAnswered] of [
      ["öne\n", true],
      ["two\n", false],
      ["three\n", true],
    ] as const) {
      replica.live.addLog(line);
      await replica.report(isAnswered);
    }
    expect((await replica.queue.read(id))?.logs).toBe("öne\ntwo\nthree\n");
  });

  test("are reported without the logs, which are sent when they have changed, and not with each page of events", async () => {
    using replica = await claimed("separate");
    using reader = replica.reader();
    await reader.readOutputs();
    const received = async () => Number(/total_net_input_bytes:(\d+)/.exec(await redis.client.info("stats"))?.[1]);
    const logs = "x".repeat(2 ** 20);
    replica.live.addLog(logs);
    await replica.report();
    const before = await received();
    for (const text of ["1", "2", "3"]) {
      replica.add(text);
      await replica.report();
    }
    expect((await received()) - before).toBeLessThan(2 ** 16);
    replica.live.addLog("y");
    replica.add("4");
    expect(replica.lease.report(0)).toMatchObject({ bytes: 1, progress: { logs: undefined, page: { from: 3 } } });
    await replica.report();
    await reader.readEvents();
    expect(textsOf(reader)).toEqual(["1", "2", "3", "4"]);
    expect((await replica.queue.read(id))?.logs).toBe(`${logs}y`);
  });

  test("are reported from the first one on, once a replica watches the prediction", async () => {
    using replica = await claimed("unwatched");
    replica.add('"one"');
    await replica.report();
    replica.add('"two"');
    await replica.report();
    expect(await redis.client.keys("*{unwatched}:e:*")).toEqual([]);
    using reader = replica.reader();
    await reader.readOutputs();
    // The worker renews its lease when the reader's message arrives.
    const renewal = { id, bytes: 0 };
    replica.lease.reported(renewal, await replica.queue.renew(renewal));
    await replica.report();
    await reader.readEvents();
    expect(textsOf(reader)).toEqual(['"one"', '"two"']);
  });

  test("are refused by a Redis that is full, and reported again when it has memory", async () => {
    using replica = await claimed("full");
    using reader = replica.reader();
    await reader.readOutputs();
    await redis.client.config("SET", "maxmemory", "1");
    replica.add('"one"');
    await expect(replica.report()).rejects.toMatchObject({ code: "queue_unavailable" });
    await redis.client.config("SET", "maxmemory", "0");
    replica.add('"two"');
    await replica.report();
    await reader.readEvents();
    expect(textsOf(reader)).toEqual(['"one"', '"two"']);
  });

  test("have a limit of bytes in Redis: a reader that falls behind gets no more of them, and other readers get all", async () => {
    using replica = await claimed("large");
    using reader = replica.reader();
    using slow = replica.reader();
    await Promise.all([reader.readOutputs(), slow.readOutputs()]);
    const text = JSON.stringify("x".repeat(2 ** 22));
    for (let i = 0; i < 6; i++) {
      replica.add(text);
      await replica.report();
      await reader.readEvents();
      if (i === 0) await slow.readEvents();
    }
    const kept = await redis.client.xrange("sconce:11:{large}:e:prediction", "-", "+");
    const lengths = kept.map(([, fields]) => fields.join("").length);
    expect(lengths.reduce((sum, length) => sum + length)).toBeLessThan(2 ** 24 + 100);
    expect(partsOf(reader).map(({ sequence }) => sequence)).toEqual([0, 1, 2, 3, 4, 5]);
    await slow.readEvents();
    expect(partsOf(slow).map(({ sequence }) => sequence)).toEqual([0]);
  });
});
