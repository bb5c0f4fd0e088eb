/** Polls Redis once a second: reads the figures of the queue, and ends predictions of any replica whose time limit has passed. */
import { codedError, messageOf, oneLine } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { DrainRate } from "../../pipeline/drain-rate.ts";
import type { QueueFacts } from "../store.ts";
import type { Queue } from "./queue.ts";
import { isConnecting, isFull, isGroupMissing } from "./redis-link.ts";
import { entryOf, listOf, numberOf, textOf } from "./replies.ts";

const TICK_MS = 1000;
/** Milliseconds of silence, in addition to a lease, after which a worker counts as ended. */
const SILENT_MS = 5000;
/** Maximum predictions that one poll ends because their time limit has passed. */
const MAX_LATE = 100;
/** Milliseconds after which the keys of an empty queue without a replica expire. */
const UNUSED_MS = 86_400_000;
/** No entry follows this id. */
const LAST_ID = "18446744073709551615-0";

/** Figures of the queue, and the number of predictions that workers have ended since the queue was created. */
type Figures = QueueFacts & { readonly ended: number };

/** Estimates how long a new prediction waits until a worker claims it, from the recent rate of claims. */
export class QueueWait {
  #facts: Pick<Figures, "ended" | "waiting" | "taken"> | undefined;
  readonly #rate = new DrainRate(() => this.#facts?.taken ?? 0);

  update(facts: Pick<Figures, "ended" | "waiting" | "taken">, nowMs: number): void {
    const before = this.#facts ?? facts;
    this.#facts = facts;
    // The difference is negative after workers have returned predictions, or when the queue is new.
    const claimed = Math.max(0, facts.ended - before.ended + facts.taken - before.taken);
    if (claimed > 0) this.#rate.started(claimed, nowMs);
    if (facts.waiting > 0) this.#rate.busy(nowMs);
    else this.#rate.idle();
  }

  /** The estimated wait in milliseconds; 0 while the rate is unknown. */
  waitMs(nowMs: number): number {
    return this.#rate.waitMs(this.#facts?.waiting ?? 0, nowMs);
  }
}

export class QueueState implements Disposable {
  readonly #queue: Queue;
  readonly #wait = new QueueWait();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #isWorker: () => boolean;
  readonly #onPoll: () => void;
  #isPolling = false;
  facts: Figures = { items: 0, ended: 0, waiting: 0, taken: 0, ageMs: 0, workers: 0 };
  /** Whether Redis refuses new predictions because its memory is full. */
  isFull = false;
  /** Whether the last poll succeeded; undefined before the first poll. */
  #answered: boolean | undefined;

  /** @param isWorker whether this node claims predictions @param onPoll called after each successful poll */
  constructor(queue: Queue, isWorker: () => boolean, onPoll: () => void) {
    this.#queue = queue;
    this.#isWorker = isWorker;
    this.#onPoll = onPoll;
    this.#timer = setInterval(() => void this.poll(), TICK_MS);
    this.#timer.unref();
  }

  get isConnected(): boolean {
    return this.#answered === true;
  }

  /** Estimated milliseconds until a worker claims a new prediction; 0 for an unknown rate. */
  get waitMs(): number {
    return this.#wait.waitMs(performance.now());
  }

  async poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const wasFull = this.isFull;
      this.facts = await this.#read();
      this.#wait.update(this.facts, performance.now());
      if (this.#answered !== true) log.info("Predictions are shared through the queue");
      this.#answered = true;
      if (this.isFull && !wasFull) log.warn("The memory of Redis is full: the queue takes no predictions");
      if (!this.isFull && wasFull) log.info("Redis has memory again: the queue takes predictions");
      this.#onPoll();
    } catch (error) {
      if (isConnecting(error)) return;
      const { cause } = codedError(error);
      if (this.#answered !== false) log.warn(`The queue cannot be used: ${oneLine(messageOf(cause))}`);
      this.#answered = false;
    } finally {
      this.#isPolling = false;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  async #read(): Promise<Figures> {
    const { link, keys, leaseMs, mail, node } = this.#queue;
    const [work, totals] = [keys.work(), keys.totals()];
    const nowMs = Math.floor(await this.#queue.nowMs(true));
    const group = ["GROUP", "workers", node, "COUNT", 1, "STREAMS", work, LAST_ID];
    const [wasRefused, total, length, pending, late] = await Promise.all([
      mail.keep().then(() => false, unless(isFull, true)),
      link.call("hmget", totals, "items", "ended"),
      link.call("xlen", work).then(numberOf),
      link.call("xpending", work, "workers").then(listOf, unless(isGroupMissing, [])),
      link.call("zrangebyscore", keys.deadlines, "-inf", nowMs, "LIMIT", 0, MAX_LATE),
      // Reads nothing: a sign of life of this worker.
      this.#isWorker() && link.call("xreadgroup", ...group).catch(unless(isGroupMissing, undefined)),
    ]);
    this.isFull = wasRefused;
    const expires = (key: string) => (length === 0 ? link.call("pexpire", key, UNUSED_MS) : link.call("persist", key));
    await Promise.all([work, totals].map(expires));
    await Promise.all(listOf(late).map((id) => this.#queue.endLate(textOf(id))));
    const [items = 0, ended = 0] = listOf(total).map(numberOf);
    const taken = numberOf(pending[0]);
    const waiting = Math.max(0, length - taken);
    const hasGroup = pending.length > 0;
    const [consumers, groups] = await Promise.all([
      hasGroup ? link.call("xinfo", "CONSUMERS", work, "workers") : [],
      hasGroup && waiting > 0 ? link.call("xinfo", "GROUPS", work) : [],
    ]);
    const silentMs = Math.max(SILENT_MS, leaseMs);
    const workers = listOf(consumers).filter((each) => numberOf(memberOf(each, "idle")) < silentMs).length;
    const delivered = textOf(memberOf(listOf(groups)[0], "last-delivered-id")) || "0-0";
    const oldest = waiting > 0 ? await link.call("xrange", work, `(${delivered}`, "+", "COUNT", 1) : [];
    const [first] = listOf(oldest).map(entryOf);
    const ageMs = first === undefined ? 0 : Math.max(0, nowMs - Number(first.id.split("-")[0]));
    return { items, ended, waiting, taken, ageMs, workers };
  }
}

/** @returns a handler that returns `value` for an expected error, and throws any other error */
function unless<T>(isExpected: (error: unknown) => boolean, value: T): (error: unknown) => T {
  return (error) => {
    if (isExpected(error)) return value;
    throw error;
  };
}

/** A value of a reply that alternates names and values. */
function memberOf(reply: unknown, name: string): unknown {
  const all = listOf(reply);
  return all[all.findIndex((each) => textOf(each) === name) + 1];
}
