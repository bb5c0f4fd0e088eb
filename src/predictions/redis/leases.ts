/**
 * The predictions that this process has claimed from the queue. It renews their leases until Redis has acknowledged their
 * outcomes, and claims the predictions of processes that have ended.
 */

import { byteLengthOf } from "../../base/large-text.ts";
import { log } from "../../base/log.ts";
import { until } from "../../base/until.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import type { LivePrediction } from "../live.ts";
import type { PredictionMetrics } from "../metrics.ts";
import type { EndedRecord } from "../record.ts";
import type { Claimed, Claimer } from "../store.ts";
import { Lease, type LeaseReport } from "./lease.ts";
import { MAX_COUNT, type Queue } from "./queue.ts";
import { BLOCK_MS, type RedisLink, retry } from "./redis-link.ts";

export interface LeasesOptions {
  readonly queue: Queue;
  readonly memory: MemoryAccount;
  readonly metrics: PredictionMetrics;
}

/** Milliseconds to wait after a failed claim. */
const RETRY_MS = 100;
/** Milliseconds between reports of progress, and after a failed report. */
const REPORT_MS = 50;
const FAILED_MS = 500;
/**
 * Milliseconds after a prediction's time limit at which an outcome that Redis has not accepted is dropped. Another process
 * has ended the prediction by then.
 */
const EXPIRY_MS = 60_000;

export class Leases implements Disposable {
  readonly #options: LeasesOptions;
  readonly #leases = new Map<string, Lease>();
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  /** The process that claims; undefined before the first claim, and after the disposal. */
  claimer: Claimer | undefined;
  #isReporting = false;
  #renewedMs = performance.now();
  #reclaimedMs = Number.NEGATIVE_INFINITY;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Whether this process claims predictions, or still runs some. */
  get isActive(): boolean {
    return this.claimer?.isActive === true;
  }

  async *claim(claimer: Claimer): AsyncGenerator<Claimed, undefined> {
    const { queue } = this.#options;
    const { signal } = claimer;
    this.claimer = claimer;
    this.#timers.push(
      setInterval(() => void this.renewAll(), queue.leaseMs / 3),
      setInterval(() => void this.#report(), REPORT_MS),
    );
    for (const timer of this.#timers) timer.unref();
    using link = queue.openLink({ isBlocking: true });
    signal.addEventListener("abort", () => link[Symbol.dispose]());
    for (let room = await claimer.room(); room > 0; room = await claimer.room()) {
      const claimed = await this.#next(link, Math.min(MAX_COUNT, room)).catch(() => undefined);
      if (signal.aborted) return undefined;
      if (claimed === undefined) await Bun.sleep(RETRY_MS);
      else for (const lease of claimed) if (this.#isCurrent(lease)) yield lease.request;
    }
    return undefined;
  }

  /** Renews the lease of a prediction, or drops a prediction that another process has claimed or ended. Never throws. */
  async renew(id: string): Promise<boolean> {
    const lease = this.#leases.get(id);
    return lease === undefined || this.#exchange(lease, { id, bytes: 0 });
  }

  /** Renews all leases. Never throws. */
  async renewAll(): Promise<void> {
    const began = performance.now();
    const renewals = [...this.#leases.keys()].map((id) => this.renew(id));
    if ((await Promise.all(renewals)).every(Boolean)) this.#renewedMs = began;
  }

  report(live: LivePrediction): void {
    this.#leases.get(live.id)?.begin(live);
  }

  async release(ids: readonly string[]): Promise<void> {
    await this.#options.queue.giveBack(ids.filter((id) => this.#drop(id)));
  }

  /** Sends an outcome until Redis acknowledges it. */
  finish(record: EndedRecord): void {
    const lease = this.#leases.get(record.id);
    if (lease === undefined || lease.ended !== undefined) return;
    lease.ended = record;
    void this.#send(lease, record);
  }

  /** Resolves when Redis has acknowledged all outcomes, except dropped ones. */
  flush(): Promise<void> {
    return until(() => !this.#leases.values().some(({ ended }) => ended !== undefined), Infinity);
  }

  /** Leaves the processes that claim predictions. */
  [Symbol.dispose](): void {
    this.claimer = undefined;
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Claims predictions of processes that have ended, else new ones. Waits for a while if there are none. */
  async #next(link: RedisLink, count: number): Promise<Lease[]> {
    const { queue, metrics } = this.#options;
    const nowMs = performance.now();
    if (nowMs - this.#reclaimedMs > queue.leaseMs / 2) {
      const reclaimed = await this.#reclaim(count, nowMs);
      if (reclaimed.length > 0) return reclaimed;
    }
    const requests = await queue.claim(link, count, Math.min(BLOCK_MS, queue.leaseMs / 2));
    metrics.queueTook({ taken: requests.length, reclaimed: 0, givenUp: 0 });
    const added = requests.map((request) => this.#add(request));
    // If this process was suspended meanwhile, other processes may have claimed the predictions.
    if (requests.length > 0 && performance.now() - nowMs > queue.leaseMs / 2 + BLOCK_MS) await this.renewAll();
    return added;
  }

  async #reclaim(count: number, nowMs: number): Promise<Lease[]> {
    const { queue, metrics } = this.#options;
    // After an outage of Redis all leases have ended. Each process first renews its own, so that no running prediction
    // changes its process.
    const isCurrent = nowMs - this.#renewedMs <= queue.leaseMs / 2;
    if (!isCurrent) await this.renewAll();
    const all = isCurrent ? await queue.reclaim(count) : [];
    // A full page is not the last one.
    if (all.length < count) this.#reclaimedMs = nowMs;
    const found = all.filter(({ id }) => !this.#leases.has(id));
    const { length } = found;
    metrics.queueTook({ taken: length, reclaimed: length, givenUp: 0 });
    if (length > 0)
      log.info(`Takes over ${length === 1 ? "a prediction" : `${length} predictions`} of a replica that ended`);
    return found.map((request) => this.#add(request));
  }

  #add(request: Claimed): Lease {
    // If this process has a lease for the id, Redis lost that prediction, and its client sent it again.
    this.#lost(request.id);
    this.#remove(this.#leases.get(request.id));
    const lease = new Lease(request);
    this.#leases.set(request.id, lease);
    return lease;
  }

  async #report(): Promise<void> {
    if (this.#isReporting) return;
    this.#isReporting = true;
    const nowMs = performance.now();
    const reports = [...this.#leases.values()].flatMap((lease) => {
      const report = lease.report(nowMs);
      return report === undefined ? [] : [this.#exchange(lease, report)];
    });
    if (!(await Promise.all(reports)).every(Boolean)) await Bun.sleep(FAILED_MS);
    this.#isReporting = false;
  }

  /** Renews a lease, and reports the progress of its prediction. @returns false after a failure */
  async #exchange(lease: Lease, report: LeaseReport): Promise<boolean> {
    try {
      const state = await this.#options.queue.renew(report);
      if (!this.#isCurrent(lease)) return true;
      lease.reported(report, state);
      if (state === "lost") this.#lost(lease.request.id);
      return true;
    } catch {
      return false;
    }
  }

  /** Whether the lease was not replaced: a replaced lease belongs to an older prediction with the same id. */
  #isCurrent(lease: Lease): boolean {
    return this.#leases.get(lease.request.id) === lease;
  }

  /** Drops a prediction that another process runs now, or has ended. */
  #lost(id: string): void {
    if (this.#drop(id)) this.claimer?.lost(id);
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

  async #send(lease: Lease, record: EndedRecord): Promise<void> {
    const { queue, memory } = this.#options;
    const bytes = byteLengthOf(record.outcome.members) + record.logs.length;
    using _held = memory.add("outputs", bytes);
    const send = async () => {
      // The last events must precede the outcome, if an event stream reads them.
      for (let last = lease.report(0); last !== undefined; last = lease.report(0))
        if (!(await this.#exchange(lease, last))) break;
      if (this.#isCurrent(lease)) await queue.finish({ record, bytes });
    };
    await retry(send, lease.request.deadlineMs + EXPIRY_MS);
    if (this.#isCurrent(lease)) this.#remove(lease);
  }

  #remove(lease: Lease | undefined): void {
    if (lease === undefined) return;
    this.#leases.delete(lease.request.id);
    lease[Symbol.dispose]();
  }
}
