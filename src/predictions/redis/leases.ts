/**
 * The predictions that this process has claimed from the queue. It renews their leases until Redis has acknowledged their
 * outcomes, and claims the predictions of processes that have ended.
 */
import { log } from "../../base/log.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { byteLengthOf } from "../large-text.ts";
import type { LivePrediction } from "../live.ts";
import type { PredictionMetrics } from "../metrics.ts";
import type { EndedRecord } from "../record.ts";
import type { Claimed, Claimer } from "../store.ts";
import { Lease } from "./lease.ts";
import { type LeaseReport, MAX_COUNT, type Queue, type QueuedOutcome } from "./queue.ts";
import { BLOCK_MS, LARGE_VALUE_BYTES, type RedisLink, retry } from "./redis-link.ts";

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
  #claimer: Claimer | undefined;
  #isReporting = false;
  #hasLeft = false;
  #renewedMs = performance.now();
  #reclaimedMs = Number.NEGATIVE_INFINITY;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Whether this process claims predictions, or still runs some. */
  get isActive(): boolean {
    return !this.#hasLeft && this.#claimer?.isActive === true;
  }

  /** The process that claims; undefined before the first claim. */
  get claimer(): Claimer | undefined {
    return this.#claimer;
  }

  /** Called when an event stream watches a prediction. */
  watched(id: string): void {
    this.#leases.get(id)?.watched();
  }

  async *claim(claimer: Claimer): AsyncGenerator<Claimed, undefined> {
    const { queue } = this.#options;
    const { signal } = claimer;
    this.#claimer = claimer;
    this.#timers.push(
      setInterval(() => void this.renew(), queue.leaseMs / 3),
      setInterval(() => void this.#report(), REPORT_MS),
    );
    for (const timer of this.#timers) timer.unref();
    using link = queue.openLink("blocking");
    signal.addEventListener("abort", () => link[Symbol.dispose]());
    for (let room = await claimer.room(); room > 0; room = await claimer.room()) {
      const claimed = await this.#next(link, Math.min(MAX_COUNT, room)).catch((error: unknown) => error);
      if (signal.aborted) return undefined;
      if (Array.isArray(claimed)) {
        for (const { lease, request } of claimed) if (this.#leases.get(lease.id) === lease) yield request;
      } else await Bun.sleep(RETRY_MS);
    }
    return undefined;
  }

  /** Renews all leases, and drops predictions that another process has claimed. Never throws. */
  async renew(): Promise<void> {
    const began = performance.now();
    const isRenewed = await this.#exchange([...this.#leases.keys()].map((id) => ({ id })));
    if (isRenewed) this.#renewedMs = began;
  }

  report(live: LivePrediction): void {
    this.#leases.get(live.id)?.begin(live);
  }

  async release(ids: readonly string[]): Promise<void> {
    await this.#options.queue.giveBack(ids.filter((id) => this.#drop(id)));
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
    if (lease?.ended !== undefined) await lease.acknowledged;
  }

  /** Resolves when Redis has acknowledged all outcomes, except dropped ones. */
  async flush(): Promise<void> {
    await Promise.all([...this.#leases.keys()].map((id) => this.written(id)));
  }

  /** Leaves the processes that claim predictions. */
  [Symbol.dispose](): void {
    this.#hasLeft = true;
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Claims predictions of processes that have ended, else new ones. Waits for a while if there are none. */
  async #next(link: RedisLink, count: number): Promise<{ lease: Lease; request: Claimed }[]> {
    const { queue, metrics } = this.#options;
    const { leaseMs } = queue;
    const nowMs = performance.now();
    if (nowMs - this.#reclaimedMs > leaseMs / 2) {
      // After an outage of Redis all leases have ended. Each process first renews its own, so that no running prediction
      // changes its process.
      const isCurrent = nowMs - this.#renewedMs <= leaseMs / 2;
      const all = isCurrent ? await queue.reclaim(count) : [];
      if (!isCurrent) await this.renew();
      // A full page is not the last one.
      if (all.length < count) this.#reclaimedMs = nowMs;
      const found = all.filter(({ id }) => !this.#leases.has(id));
      const { length } = found;
      metrics.queueTook({ taken: length, reclaimed: length, givenUp: 0 });
      if (length > 0)
        log.info(`Takes over ${length === 1 ? "a prediction" : `${length} predictions`} of a replica that ended`);
      if (length > 0 || !isCurrent) return found.map((request) => this.#add(request));
    }
    const requests = await queue.claim(link, count, Math.min(BLOCK_MS, leaseMs / 2));
    metrics.queueTook({ taken: requests.length, reclaimed: 0, givenUp: 0 });
    const added = requests.map((request) => this.#add(request));
    // If this process was suspended meanwhile, other processes may have claimed the predictions.
    if (requests.length > 0 && performance.now() - nowMs > leaseMs / 2 + BLOCK_MS) await this.renew();
    return added;
  }

  #add(request: Claimed): { lease: Lease; request: Claimed } {
    const { id, deadlineMs } = request;
    // If this process has a lease for the id, Redis lost that prediction, and its client sent it again.
    this.#lost(id);
    this.#remove(this.#leases.get(id));
    const lease = new Lease(id, deadlineMs);
    this.#leases.set(id, lease);
    return { lease, request };
  }

  async #report(): Promise<void> {
    if (this.#isReporting) return;
    this.#isReporting = true;
    const nowMs = performance.now();
    const isSent = await this.#exchange([...this.#leases.values()].flatMap((lease) => lease.report(nowMs) ?? []));
    if (!isSent) await Bun.sleep(FAILED_MS);
    this.#isReporting = false;
  }

  /** Renews leases with their progress. @returns false after a failure */
  async #exchange(reports: readonly LeaseReport[]): Promise<boolean> {
    try {
      for (const page of pagesOf(reports)) {
        const leases = page.map(({ id }) => this.#leases.get(id));
        const states = await this.#options.queue.renew(page);
        page.forEach((report, i) => {
          const [lease, state] = [leases[i], states[i] ?? "lost"];
          if (lease === undefined || this.#leases.get(report.id) !== lease) return;
          lease.reported(report, state);
          if (state === "lost") this.#lost(report.id);
        });
      }
      return true;
    } catch {
      return false;
    }
  }

  /** Drops a prediction that another process runs now, or has ended. */
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
      // The last events must precede the outcome, if an event stream reads them.
      for (let last = lease.report(0); last !== undefined; last = lease.report(0))
        if (!(await this.#exchange([last]))) break;
      if (isCurrent()) await queue.finish(outcome);
    };
    await retry(send, lease.deadlineMs + EXPIRY_MS);
    if (isCurrent()) this.#remove(lease);
  }

  #remove(lease: Lease | undefined): void {
    if (lease === undefined) return;
    this.#leases.delete(lease.id);
    lease[Symbol.dispose]();
  }
}

/** Divides reports into calls of limited size. */
function* pagesOf(reports: readonly LeaseReport[]): Generator<LeaseReport[]> {
  let [page, bytes]: [LeaseReport[], number] = [[], 0];
  for (const report of reports) {
    page.push(report);
    bytes += report.progress?.bytes ?? 0;
    if (page.length < MAX_COUNT && bytes < LARGE_VALUE_BYTES) continue;
    yield page;
    [page, bytes] = [[], 0];
  }
  if (page.length > 0) yield page;
}
