/** A queue in Redis without a server, and requests and outcomes for it. */
import type { Kind } from "../../src/predictions/record.ts";
import { Queue, type QueuedOutcome, type QueueOptions } from "../../src/predictions/redis/queue.ts";
import { parseRedisAddress } from "../../src/predictions/redis/redis-address.ts";

/** @param url the value of `--queue` @param options.leaseMs 0 lets other nodes take over a claimed prediction at once */
export async function queueOn(url: string, name: string, options: Partial<QueueOptions> = {}) {
  const opened = Promise.withResolvers<void>();
  const queue = new Queue({
    address: parseRedisAddress(url),
    onFault() {},
    onReady: opened.resolve,
    repository: name,
    name,
    node: "a",
    leaseMs: 60_000,
    retentionMs: 60_000,
    limits: { maxQueuedItems: 10_000, maxQueuedBytes: 2 ** 30 },
    ...options,
  });
  await opened.promise;
  await queue.poll(false);
  return {
    queue,
    take: (count = 5) => queue.claim(queue.link, count, 1),
    [Symbol.dispose]: () => queue[Symbol.dispose](),
  };
}

export function requestOf(id = "p", body = '[{"x":1}]', { kind = "prediction", count = 1 }: RequestFacts = {}) {
  const origin = { requestId: "r", traceId: undefined, spanId: undefined };
  return { id, kind, count, bytes: body.length, timeoutMs: 60_000, isWaitedFor: false, body, origin };
}

interface RequestFacts {
  readonly kind?: Kind;
  readonly count?: number;
}

/** A successful outcome. */
export function endOf(members: string, id = "p"): QueuedOutcome {
  const outcome = { status: "success", members } as const;
  const times = { createdAtMs: 0, startedAtMs: 1, finishedAtMs: 2 };
  const record = { id, kind: "prediction", count: 1, itemsDone: 1, ...times, outcome, logs: "" } as const;
  return { record, bytes: members.length };
}
