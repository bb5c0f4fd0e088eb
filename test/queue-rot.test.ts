/**
 * A disk that changes bits of Redis's append-only file: a replica reads each stored text as it was, misses it, or refuses it by name, and the queue goes on.
 * SCONCE_ROT_TRIALS sets how many bits.
 */
import { describe, expect, spyOn, test } from "bun:test";
import { cp, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SconceError } from "../src/base/errors.ts";
import { log } from "../src/base/log.ts";
import { DamagedValue } from "../src/server/predictions/checksum.ts";
import type { EndedRecord, Kind, PredictionRecord } from "../src/server/predictions/record.ts";
import { Mailbox } from "../src/server/queue/mailbox.ts";
import { Queue } from "../src/server/queue/queue.ts";
import type { QueuedRequest } from "../src/server/queue/queue-messages.ts";
import { parseRedisAddress } from "../src/server/queue/redis-address.ts";
import { RedisLink } from "../src/server/queue/redis-link.ts";
import { seeded } from "./helpers/loads.ts";
import { asText, endOf } from "./helpers/predictions.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { redisLinks } from "./helpers/redis-links.ts";
import { until } from "./helpers/running.ts";

const TRIALS = Number(process.env.SCONCE_ROT_TRIALS ?? 20);
const HOUR_MS = 3_600_000;
const silent = Object.assign(() => {}, { raw() {} });
const webhook = { url: "https://example.com/hook", events: ["completed" as const] };

const kinds: readonly Kind[] = ["prediction", "demo"];
const idsOf = (name: string, count: number) => Array.from({ length: count }, (_, i) => `order-${name}-${i}`);
const ended = idsOf("ended", 8);
const canceled = idsOf("canceled", 3);
const waiting = idsOf("waiting", 6);
const running = "order-running";
const logs = "line 1 of the log\n";

function requestFor(id: string, i = 0): QueuedRequest {
  const body = JSON.stringify([{ text: id, more: "x".repeat(i === 0 ? 70_000 : 200) }]);
  const origin = { requestId: `r-${id}`, traceId: undefined, spanId: undefined };
  const facts = { id, kind: kinds[i % 2] ?? "demo", count: 1, bytes: body.length, timeoutMs: HOUR_MS };
  return { ...facts, isWaitedFor: true, body, origin, webhook, digest: `digest-of-${id}` };
}

function outcomeFor(id: string, i: number): EndedRecord {
  const members = `"outputs":[${JSON.stringify(`${id} ${"y".repeat(300)}`)}]`;
  return endOf(id, { kind: kinds[i % 2] ?? "demo", outcome: { status: "success", members }, logs: i % 2 ? logs : "" });
}

const events = Array.from({ length: 6 }, (_, i) => ({ index: 0, sequence: i, text: JSON.stringify(`part ${i}`) }));

async function open(url: string, node: string) {
  const links = await redisLinks(url);
  const { link, largeLink } = links;
  const limits = { maxQueuedItems: 100, maxQueuedBytes: 1e9 };
  const retention = { ms: HOUR_MS, bytes: 1e9 };
  const options = { link, largeLink, name: "rot", node, leaseMs: 0, retention, timeoutMs: HOUR_MS, limits };
  const queue = new Queue({ ...options, deliversWebhooks: true });
  return { queue, link, [Symbol.dispose]: () => links[Symbol.dispose]() };
}

type Opened = Awaited<ReturnType<typeof open>>;

/** Fills the queue with ended, canceled, waiting and running predictions, all with webhooks. */
async function fill({ queue, link }: Opened): Promise<void> {
  await queue.makeGroup();
  const begin = async (ids: readonly string[]) => {
    for (const [i, id] of ids.entries()) await queue.create(requestFor(id, i));
  };
  await begin([...ended, ...canceled]);
  await queue.claim(link, ended.length, 1);
  for (const [i, id] of ended.entries())
    await queue.finish([{ record: outcomeFor(id, i), bytes: 1, hasLargeBody: false }]);
  for (const [i, id] of canceled.entries()) await queue.cancel(kinds[i % 2] ?? "demo", id, true);
  await queue.create(requestFor(running, 1));
  await queue.claim(link, canceled.length + 1, 1);
  await queue.reportProgress([{ id: running, startedAtMs: Date.now(), itemsDone: 0, logBytes: 0, logs }]);
  await queue.events.expect(running);
  await queue.events.report(running, { name: "log", from: 0, events });
  await begin(waiting);
}

type Records = ReadonlyMap<string, PredictionRecord>;

type Counts = Record<"unreadable" | "right" | "missing" | "named", number>;

const nameless = (error: unknown) => !(error instanceof SconceError) || error.code !== "predictions_unusable";

/** Reads all that Redis has. @throws if a value is another than the stored one, or an error has no name */
async function readAll(url: string, records: Records, counts: Counts): Promise<void> {
  // Opens the queue as the first replica, because Redis has notifications for this replica.
  using opened = await open(url, "first");
  const { queue } = opened;
  await readMail(queue, url, records, counts);
  for (const [id, expected] of records) {
    try {
      const record = asText(await queue.read(id, { isAwaited: false }));
      const isLost = record !== undefined && record.outcome === undefined && expected.outcome !== undefined;
      if (record === undefined || isLost) counts.missing += 1;
      else {
        const { itemsDone, startedAtMs } = record;
        // The damage may have lost the progress of the running prediction.
        const isBare = id === running && startedAtMs === undefined;
        expect(record).toEqual(isBare ? { ...expected, startedAtMs, itemsDone, logs: "" } : expected);
        counts.right += 1;
      }
    } catch (error) {
      if (nameless(error)) throw error;
      counts.named += 1;
    }
  }
  await readEvents(queue, counts);
  await readWebhooks(queue, counts);
  await readRequests(opened, counts);
  await queue.tend("0-0", true);
}

async function readMail(queue: Queue, url: string, records: Records, counts: Counts) {
  using link = new RedisLink({ address: parseRedisAddress(url), use: "blocking", onFault: () => {} });
  const mailbox = new Mailbox({ queue, link });
  mailbox.listen({
    ended: (record) => {
      expect(asText(record)).toEqual(records.get(record.id));
      counts.right += 1;
    },
    cancelled: (id) => expect(id).toBe(running),
  });
  const last = (await queue.readMail(link, "0-0", 1).catch(() => [])).at(-1)?.id ?? "0-0";
  await until(() => mailbox.lastId === last);
  mailbox.stop();
}

async function readEvents(queue: Queue, counts: Counts): Promise<void> {
  try {
    const page = await queue.events.read(running, { name: "", from: 0 }, { isNotified: false });
    for (const [i, event] of page?.events.entries() ?? []) expect(event).toEqual(events[(page?.from ?? 0) + i]);
    counts.right += 1;
  } catch (error) {
    if (!(error instanceof DamagedValue)) throw error;
    counts.named += 1;
  }
}

async function readWebhooks(queue: Queue, counts: Counts): Promise<void> {
  const { claimed } = await queue.webhooks({ leaseMs: 1, maxClaimed: 100, delivered: [], renewed: [] });
  for (const each of claimed) {
    if (each.webhook === undefined) counts.named += 1;
    else expect(each.webhook).toBe(JSON.stringify(webhook));
  }
}

async function readRequests({ queue, link }: Opened, counts: Counts): Promise<void> {
  // Workers create the consumer group, too, if it is missing.
  await queue.makeGroup();
  const { requests } = await queue.claim(link, 100, 1);
  const again = await queue.reclaim("-", 100);
  for (const { id, load } of [...requests, ...again.requests]) {
    const request = await load();
    if (request.isDamaged) {
      counts.named += 1;
      continue;
    }
    // The damage may undo the removal of an ended prediction's entry, so ended predictions can appear among the
    // requests.
    const i = Math.max(...[[running, running], ended, canceled, waiting].map((ids) => ids.lastIndexOf(id)));
    const { kind, count, timeoutMs, body, origin } = requestFor(id, i);
    expect({ ...request, body: Buffer.from(request.body).toString() }).toMatchObject({
      ...{ kind, count, timeoutMs, body, webhook },
      origin: { requestId: origin?.requestId },
    });
    counts.right += 1;
  }
}

describe.skipIf(!hasRedis)(
  `Redis on a disk that changes bits (with redis-server${hasRedis ? "" : ": not here"})`,
  () => {
    test(`${TRIALS} single changed bits`, async () => {
      await using redis = await startRedis("--appendonly", "yes", "--appendfsync", "no");
      const folder = dirname(redis.url.slice("redis://".length));
      const records = new Map<string, PredictionRecord>();
      {
        using opened = await open(redis.url, "first");
        await fill(opened);
        for (const id of [...ended, ...canceled, ...waiting, running]) {
          const record = asText(await opened.queue.read(id, { isAwaited: true }));
          if (record !== undefined) records.set(id, record);
        }
        expect(records.size).toBe(18);
      }
      await redis.stop();
      const files = join(folder, "appendonlydir");
      const copy = join(folder, "copy");
      await cp(files, copy, { recursive: true });
      const name = (await readdir(copy)).find((each) => each.endsWith(".incr.aof")) ?? "";
      const whole = await Bun.file(join(copy, name)).bytes();
      const seed = Number(process.env.SCONCE_ROT_SEED ?? Date.now() % 1_000_000);
      const random = seeded(seed);
      const counts = { unreadable: 0, right: 0, missing: 0, named: 0 };
      using errors = spyOn(log, "error").mockImplementation(silent);
      using _warnings = spyOn(log, "warn").mockImplementation(silent);
      for (let trial = 0; trial < TRIALS; trial++) {
        const at = placeIn(whole, trial, random);
        const bit = Math.floor(random() * 8);
        const changed = whole.slice();
        changed[at] = (changed[at] ?? 0) ^ (1 << bit);
        await rm(files, { recursive: true });
        await cp(copy, files, { recursive: true });
        await Bun.write(join(files, name), changed);
        try {
          await redis.start();
        } catch {
          counts.unreadable += 1;
          continue;
        }
        await readAll(redis.url, records, counts).catch((cause) => {
          const near = Buffer.from(changed.subarray(at - 40, at + 40)).toString();
          throw new Error(`trial ${trial} of seed ${seed}: byte ${at}, bit ${bit}, near ${near}`, { cause });
        });
        await redis.stop("SIGKILL");
      }
      console.log(`seed ${seed}: ${JSON.stringify(counts)}, ${errors.mock.calls.length} logged`);
      expect(counts.right).toBeGreaterThan(0);
      // Trial 0 changes the body of a waiting request, which must be reported.
      expect(counts.named).toBeGreaterThan(0);
    }, 600_000);
  },
);

/** A piece of each kind of stored text. The first trials change one of these pieces each. */
const marks = [
  '"text":"order-waiting',
  '"outputs":["order-ended',
  '"part ',
  "line 1 of the log",
  "digest-of-order",
  '{"url":"https://example',
  "Canceled",
];

/**
 * Position of the byte to change. The first trials choose each of `marks`; later trials choose any byte, but rarely one
 * of the long fillers.
 */
function placeIn(bytes: Uint8Array, trial: number, random: () => number): number {
  const mark = marks[trial];
  if (mark !== undefined) {
    const places = [
      ...Buffer.from(bytes)
        .toString("latin1")
        .matchAll(new RegExp(RegExp.escape(mark), "g")),
    ];
    return (places[Math.floor(random() * places.length)]?.index ?? 0) + Math.floor(random() * mark.length);
  }
  for (;;) {
    const at = Math.floor(random() * bytes.length);
    const isFiller = bytes[at] === 0x78 || bytes[at] === 0x79;
    if (!isFiller || random() < 0.05) return at;
  }
}
