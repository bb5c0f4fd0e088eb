/**
 * The predictions that this process has claimed from the queue. It renews their leases until Redis has acknowledged their
 * outcomes, and claims the predictions of processes that have ended.
 */
import { log } from "../../base/log.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { byteLengthOf } from "../large-text.ts";
import type { LivePrediction } from "../live.ts";
import type { PredictionMetrics } from "../metrics.ts";
import { type EndedRecord, hasEnded, type PredictionRecord } from "../record.ts";
import type { Claimed, Claimer } from "../store.ts";
import { CallBatch } from "./call-batch.ts";
import { EventReport } from "./event-report.ts";
import type { QueuedOutcome } from "./mail.ts";
import { MAX_COUNT, type Progress, type Queue } from "./queue.ts";
import { BLOCK_MS, isGroupMissing, LARGE_VALUE_BYTES, type RedisLink } from "./redis-link.ts";
import { retry } from "./retry.ts";

export interface LeasesOptions {
  readonly queue: Queue;
  /** Opens a Redis connection for reads that block. */
  readonly openLink: () => RedisLink;
  readonly memory: MemoryAccount;
  readonly metrics: PredictionMetrics;
}

/** Milliseconds to wait after a failed claim. */
const RETRY_MS = 100;
/** Maximum outcomes in one call: predictions of a batch end together. */
const MAX_OUTCOMES = 64;
/** Milliseconds between reports of progress. */
const REPORT_MS = 200;
/**
 * Milliseconds after a prediction's time limit at which an outcome that Redis has not accepted is dropped. Another process
 * has ended the prediction by then.
 */
const EXPIRY_MS = 60_000;

interface Lease {
  readonly id: string;
  /** Time limit, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
  /** The prediction, from its start in this process on. */
  live: LivePrediction | undefined;
  /** Undefined for a prediction whose outcome has all its events. */
  events: EventReport | undefined;
  /** Called when Redis has acknowledged the outcome, or the outcome was dropped. */
  readonly onAcknowledged: (() => void)[];
  /** The outcome, until Redis acknowledges it. */
  ended: EndedRecord | undefined;
  reported: Pick<PredictionRecord, "startedAtMs" | "itemsDone"> & { logLength: number; logBytes: number };
}

export class Leases implements Disposable {
  readonly #options: LeasesOptions;
  readonly #leases = new Map<string, Lease>();
  readonly #outcomes: CallBatch<QueuedOutcome, true>;
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #claimer: Claimer | undefined;
  #hasLeft = false;
  #isReporting = false;
  #renewedMs = performance.now();
  #reclaimedMs = Number.NEGATIVE_INFINITY;
  /** Position of the next page of ended leases; empty between two searches. */
  #reclaimAfter = "";

  constructor(options: LeasesOptions) {
    this.#options = options;
    const { queue } = options;
    this.#outcomes = new CallBatch({
      maxCount: MAX_OUTCOMES,
      bytesOf: ({ bytes }) => bytes,
      call: async (outcomes) => {
        await queue.finish(outcomes);
        return outcomes.map(() => true);
      },
    });
    queue.mail.listen({
      canceled: (id) => this.#claimer?.canceled(id),
      watched: (id) => this.#leases.get(id)?.events?.watched(),
    });
  }

  /** Whether this process claims predictions, or still runs some. */
  get isActive(): boolean {
    return !this.#hasLeft && this.#claimer?.isActive === true;
  }

  /** Called when predictions wait that no process claims. */
  wanted(): void {
    this.#claimer?.wanted();
  }

  async *claim(claimer: Claimer): AsyncGenerator<Claimed, undefined> {
    const { queue, openLink } = this.#options;
    const { signal } = claimer;
    this.#claimer = claimer;
    this.#timers.push(
      setInterval(() => void this.renew(), queue.leaseMs / 3),
      setInterval(() => void this.#reportProgress(), REPORT_MS),
    );
    for (const timer of this.#timers) timer.unref();
    using link = openLink();
    signal.addEventListener("abort", () => link[Symbol.dispose]());
    for (let room = await claimer.room(); room > 0; room = await claimer.room()) {
      const leases = await this.#next(link, Math.min(MAX_COUNT, room)).catch((error: unknown) => error);
      if (signal.aborted) return undefined;
      if (Array.isArray(leases)) {
        for (const { lease, ...claimed } of leases) if (this.#leases.get(lease.id) === lease) yield claimed;
      } else if (isGroupMissing(leases)) await queue.makeGroup().catch(() => {});
      else await Bun.sleep(RETRY_MS);
    }
    return undefined;
  }

  /** Renews all leases. Drops predictions that another process has claimed, and cancels those that a client has canceled. */
  async renew(): Promise<void> {
    const { queue } = this.#options;
    const ids = [...this.#leases.keys()];
    try {
      for (let i = 0; i < ids.length; i += MAX_COUNT) {
        const { lost, canceled } = await queue.renew(ids.slice(i, i + MAX_COUNT));
        for (const id of lost) this.#lost(id);
        for (const id of canceled) this.#claimer?.canceled(id);
      }
      this.#renewedMs = performance.now();
    } catch {
      // The timer calls `renew` again.
    }
  }

  report(live: LivePrediction): void {
    const lease = this.#leases.get(live.id);
    if (lease === undefined || lease.ended !== undefined) return;
    lease.live = live;
    if (EventReport.isNeeded(live)) lease.events = new EventReport(live, this.#options.queue.events);
  }

  async release(ids: readonly string[]): Promise<void> {
    const released = ids.filter((id) => this.#drop(id));
    await this.#options.queue.giveBack(released);
  }

  finish(record: EndedRecord): void {
    const lease = this.#leases.get(record.id);
    if (lease === undefined || lease.ended !== undefined) return;
    lease.ended = record;
    const bytes = byteLengthOf(record.outcome.members) + record.logs.length;
    void this.#send(lease, { record, bytes });
  }

  async written(id: string): Promise<void> {
    const lease = this.#leases.get(id);
    if (lease?.ended !== undefined) await new Promise<void>((resolve) => lease.onAcknowledged.push(resolve));
  }

  /** Resolves when Redis has acknowledged all outcomes, except dropped ones. */
  async flush(): Promise<void> {
    await Promise.all([...this.#leases.keys()].map((id) => this.written(id)));
  }

  /** Leaves the processes that claim predictions. */
  async leave(): Promise<void> {
    this.#hasLeft = true;
    await this.#options.queue.leave().catch(() => {});
    this[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Claims predictions of processes that have ended, else new ones. Waits for a while if there are none. */
  async #next(link: RedisLink, count: number): Promise<(Claimed & { readonly lease: Lease })[]> {
    const { queue, metrics } = this.#options;
    const { leaseMs } = queue;
    const nowMs = performance.now();
    if (this.#reclaimAfter === "" && nowMs - this.#reclaimedMs > leaseMs / 2) {
      this.#reclaimedMs = nowMs;
      // After an outage of Redis all leases have ended. Each process first renews its own, so that no running prediction
      // changes its process.
      if (nowMs - this.#renewedMs > leaseMs / 2) await this.renew();
      else this.#reclaimAfter = "-";
    }
    if (this.#reclaimAfter !== "") {
      const { givenUp, next, requests: ended } = await queue.reclaim(this.#reclaimAfter, count);
      this.#reclaimAfter = next;
      const requests = ended.filter(({ id }) => !this.#leases.has(id));
      const { length } = requests;
      metrics.queueTook({ taken: length, reclaimed: length, givenUp });
      if (length > 0)
        log.info(`Takes over ${length === 1 ? "a prediction" : `${length} predictions`} of a replica that ended`);
      return requests.map((request) => this.#add(request));
    }
    const { requests } = await queue.claim(link, count, Math.min(BLOCK_MS, leaseMs / 2));
    metrics.queueTook({ taken: requests.length, reclaimed: 0, givenUp: 0 });
    const added = requests.map((request) => this.#add(request));
    // If this process was suspended meanwhile, other processes may have claimed the predictions.
    if (requests.length > 0 && performance.now() - nowMs > leaseMs / 2 + BLOCK_MS) await this.renew();
    return added;
  }

  #add(request: Claimed): Claimed & { readonly lease: Lease } {
    const { id } = request;
    // If this process has a lease for the id, Redis lost that prediction, and its client sent it again.
    this.#lost(id);
    const before = this.#leases.get(id);
    if (before !== undefined) this.#remove(before);
    const reported = { startedAtMs: undefined, itemsDone: 0, logLength: 0, logBytes: 0 };
    const { deadlineMs } = request;
    const lease: Lease = {
      id,
      deadlineMs,
      live: undefined,
      events: undefined,
      ended: undefined,
      onAcknowledged: [],
      reported,
    };
    this.#leases.set(id, lease);
    return { ...request, lease };
  }

  async #reportProgress(): Promise<void> {
    if (this.#isReporting) return;
    this.#isReporting = true;
    try {
      const due = [...this.#leases.values()].flatMap((lease) => progressOf(lease) ?? []);
      if (due.length > 0) await this.#options.queue.reportProgress(due);
      for (const { lease, startedAtMs, itemsDone, logBytes, logs } of due) {
        const logLength = lease.reported.logLength + logs.length;
        lease.reported = { startedAtMs, itemsDone, logLength, logBytes: logBytes + Buffer.byteLength(logs) };
      }
    } catch {
      // The next report has the same progress.
    } finally {
      this.#isReporting = false;
    }
  }

  /** Drops a prediction that another process runs now. */
  #lost(id: string): void {
    if (this.#drop(id)) this.#claimer?.lost(id);
  }

  /**
   * Removes the lease of an unfinished prediction.
   * @returns false without a lease, or if the prediction has ended here: Redis must still get its outcome
   */
  #drop(id: string): boolean {
    const lease = this.#leases.get(id);
    if (lease === undefined || lease.ended !== undefined) return false;
    this.#remove(lease);
    return true;
  }

  /** Sends an outcome until Redis acknowledges it. */
  async #send(lease: Lease, outcome: QueuedOutcome): Promise<void> {
    const { queue, memory } = this.#options;
    using _held = memory.add("outputs", outcome.bytes);
    // A replaced lease belongs to an older prediction with this id.
    const isCurrent = () => this.#leases.get(lease.id) === lease;
    const send = async () => {
      await lease.events?.flush();
      if (!isCurrent()) return;
      // A large outcome has its own call, because small ones must not wait for it.
      await (outcome.bytes > LARGE_VALUE_BYTES ? queue.finish([outcome]) : this.#outcomes.ask(outcome));
    };
    await retry(send, lease.deadlineMs + EXPIRY_MS);
    if (isCurrent()) this.#remove(lease);
  }

  #remove({ id, events, onAcknowledged }: Lease): void {
    this.#leases.delete(id);
    events?.[Symbol.dispose]();
    for (const resolve of onAcknowledged) resolve();
  }
}

/** Progress that Redis does not have yet. */
function progressOf(lease: Lease): (Progress & { readonly lease: Lease }) | undefined {
  const { id, live, reported } = lease;
  if (live === undefined || hasEnded(live.record)) return undefined;
  const { startedAtMs, itemsDone, logs } = live.record;
  const { logLength, logBytes } = reported;
  const isReported =
    reported.startedAtMs === startedAtMs && reported.itemsDone === itemsDone && logLength === logs.length;
  return isReported ? undefined : { lease, id, startedAtMs, itemsDone, logBytes, logs: logs.slice(logLength) };
}
