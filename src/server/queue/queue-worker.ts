/** Claims predictions from the queue as fast as this process runs them, renews their leases, and claims the predictions of ended replicas. */

import { log } from "../../base/log.ts";
import type { Engine } from "../../engine/engine.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { PredictionService } from "../predictions/service.ts";
import type { Claim, ClaimedPredictions } from "./claimed-predictions.ts";
import type { Mailbox } from "./mailbox.ts";
import type { Queue } from "./queue.ts";
import type { Claimed, ClaimedRequest } from "./queue-messages.ts";
import { BLOCK_MS, isGroupMissing, type RedisLink } from "./redis-link.ts";

export interface QueueWorkerOptions {
  readonly queue: Queue;
  /** Connection for blocking reads. */
  readonly link: RedisLink;
  readonly mailbox: Mailbox;
  readonly claims: ClaimedPredictions;
  readonly service: PredictionService;
  readonly engine: Pick<Engine, "isReady" | "maxBatchSize" | "instances">;
  readonly memory: MemoryAccount;
  readonly metrics: Metrics;
}

/** Pause after a failure, and polling interval of an engine that is not ready. */
const RETRY_MS = 100;
/** Pause before a prediction without a body returns to the queue. */
const GIVE_BACK_MS = 1000;
/** Interval of progress reports. */
const REPORT_MS = 200;
/** Maximum predictions of one command. */
const MAX_COUNT = 256;
/** Weight of the newest prediction in the mean share. */
const MEAN_WEIGHT = 0.2;
/** Longest wait for acknowledgements at the stop. */
const FLUSH_MS = 5000;

export class QueueWorker {
  readonly #options: QueueWorkerOptions;
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #isStopping = false;
  #hasLeft = false;
  /** Recent mean share of a prediction. */
  #meanShare = 1;
  #capacity = Promise.withResolvers<void>();
  readonly #claiming: Promise<void>;
  #isReclaiming = false;
  #isReporting = false;
  #renewedMs = performance.now();

  constructor(options: QueueWorkerOptions) {
    this.#options = options;
    const { queue, mailbox, claims } = options;
    claims.onCapacity = () => this.#capacity.resolve();
    mailbox.listen({ cancelled: (id) => this.#cancel(id), watched: (id) => claims.events.watched(id) });
    this.#timers.push(
      setInterval(() => void this.renew(), queue.leaseMs / 3),
      setInterval(() => void this.#reclaim(), queue.leaseMs / 2),
      setInterval(() => void this.#reportProgress(), REPORT_MS),
    );
    for (const timer of this.#timers) timer.unref();
    this.#claiming = this.#claimAll();
  }

  /** Whether this replica claims predictions, or still runs some. */
  get isActive(): boolean {
    const { engine, claims } = this.#options;
    return !this.#hasLeft && (engine.isReady || claims.unfinished.length > 0);
  }

  /** Stops claiming, returns predictions that have not begun, and after `maxMs` all unfinished ones. */
  async stop(maxMs: number): Promise<void> {
    const { queue, link, claims } = this.#options;
    this.#isStopping = true;
    link[Symbol.dispose]();
    this.#capacity.resolve();
    await this.#claiming;
    await this.#giveBackUnread().catch(() => {});
    await this.#giveBack(false);
    const untilMs = performance.now() + maxMs;
    while (claims.unfinished.length > 0 && performance.now() < untilMs) {
      this.#capacity = Promise.withResolvers<void>();
      await Promise.race([this.#capacity.promise, Bun.sleep(Math.min(1000, untilMs - performance.now()))]);
    }
    const count = claims.unfinished.length;
    if (count > 0) log.warn(`${count} predictions go back to the queue: they have not ended in time`);
    await this.#giveBack(true);
    await Promise.race([claims.flush(), Bun.sleep(FLUSH_MS)]);
    this.#hasLeft = true;
    await queue.leave().catch(() => {});
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Renews all leases, and drops or cancels the predictions that the queue names. */
  async renew(): Promise<void> {
    const { queue, claims } = this.#options;
    const { ids } = claims;
    try {
      for (let i = 0; i < ids.length; i += MAX_COUNT) {
        const { lost, cancelled } = await queue.renew(ids.slice(i, i + MAX_COUNT));
        for (const id of lost) this.#drop(id);
        for (const id of cancelled) this.#cancel(id);
      }
      this.#renewedMs = performance.now();
    } catch {
      // The timer tries again.
    }
  }

  async #claimAll(): Promise<void> {
    const { engine, memory, queue } = this.#options;
    while (!this.#isStopping) {
      try {
        if (!engine.isReady || !memory.hasRoom("bodies", 0)) await Bun.sleep(RETRY_MS);
        else {
          const count = this.#freeCount();
          if (count === 0) await this.#freeLater();
          else await this.#claim(count);
        }
      } catch (error) {
        if (this.#isStopping) return;
        if (isGroupMissing(error)) await queue.makeGroup().catch(() => {});
        else await Bun.sleep(RETRY_MS);
      }
    }
  }

  async #claim(count: number): Promise<void> {
    const { queue, link } = this.#options;
    const askedMs = performance.now();
    const claimed = await queue.claim(link, count, BLOCK_MS);
    // After a long pause of this process the leases may have ended.
    const isOld = performance.now() - askedMs > queue.leaseMs / 2;
    if (claimed.requests.length > 0) await this.#begin(claimed, 0, isOld);
  }

  async #begin({ requests, givenUp }: Claimed, reclaimed: number, isOld: boolean): Promise<void> {
    const { claims, metrics, engine } = this.#options;
    // A long prediction leaves capacity for others, which run beside it.
    const maxShare = Math.max(1, (engine.maxBatchSize * engine.instances) >> 2);
    metrics.queueTook({ taken: requests.length, reclaimed, givenUp });
    const added = requests.map((request) => {
      const share = Math.min(request.count, maxShare);
      this.#meanShare += MEAN_WEIGHT * (share - this.#meanShare);
      // The queue may have lost a prediction that runs here, and its client sent it again.
      this.#drop(request.id);
      return { request, claim: claims.add(request, share) };
    });
    if (isOld) await this.renew();
    for (const { request, claim } of added) if (claims.isUnfinished(claim)) void this.#load(request, claim);
  }

  /** Loads the body and begins the prediction; others begin meanwhile. Never throws. */
  async #load({ bytes, load }: ClaimedRequest, claim: Claim): Promise<void> {
    const { claims, service, memory, queue } = this.#options;
    using _body = memory.add("bodies", bytes);
    try {
      const request = await load();
      if (this.#isStopping || !claims.isUnfinished(claim)) return;
      void service.begin(request).then(() => {
        const live = service.live.get(claim.id);
        if (live !== undefined && claims.isUnfinished(claim)) claims.events.add(live);
      });
    } catch {
      // Another worker may be able to load the body.
      await Bun.sleep(GIVE_BACK_MS);
      if (!claims.isUnfinished(claim)) return;
      claims.drop(claim.id);
      await queue.giveBack([{ id: claim.id, hasBegun: false }]).catch(() => {});
    }
  }

  /** Number of predictions to claim. A few batches of claims keep the device busy. */
  #freeCount(): number {
    const { engine, claims } = this.#options;
    const batch = engine.maxBatchSize * engine.instances;
    const free = Math.max(8, 3 * batch) - claims.share;
    return free < batch ? 0 : Math.min(MAX_COUNT, Math.max(1, Math.round(free / this.#meanShare)));
  }

  #freeLater(): Promise<void> {
    this.#capacity = Promise.withResolvers<void>();
    return this.#capacity.promise;
  }

  async #reclaim(): Promise<void> {
    const { queue, claims, engine } = this.#options;
    if (this.#isReclaiming || this.#isStopping || !engine.isReady) return;
    this.#isReclaiming = true;
    try {
      // After an outage of Redis all leases have ended. Live replicas get time to renew theirs first.
      if (performance.now() - this.#renewedMs > queue.leaseMs / 2) await this.renew();
      else {
        for (let after = "-"; after !== "" && !this.#isStopping; ) {
          const count = this.#freeCount();
          if (count === 0) return;
          const { givenUp, next, ...claimed } = await queue.reclaim(after, count);
          const requests = claimed.requests.filter(({ id }) => !claims.has(id));
          if (requests.length > 0) log.info(`Takes over ${requests.length} predictions of a replica that ended`);
          await this.#begin({ requests, givenUp }, requests.length, false);
          after = next;
        }
      }
    } catch {
      // The timer tries again.
    } finally {
      this.#isReclaiming = false;
    }
  }

  async #reportProgress(): Promise<void> {
    const { queue, claims, service } = this.#options;
    claims.updateShares();
    if (this.#isReporting) return;
    this.#isReporting = true;
    try {
      const progress = claims.progress((id) => service.live.get(id)?.record);
      if (progress.length > 0) await queue.reportProgress(progress);
      claims.progressReported(progress);
    } catch {
      // The next report repeats it.
    } finally {
      this.#isReporting = false;
    }
  }

  #cancel(id: string): void {
    const { service } = this.#options;
    const record = service.live.get(id)?.record;
    if (record !== undefined) void service.cancel(record.kind, id);
  }

  /** Stops a prediction that another replica has claimed. */
  #drop(id: string): void {
    if (this.#options.claims.drop(id)) this.#options.service.live.withdraw(id);
  }

  /** Returns predictions whose delivery was lost when the connection closed. */
  async #giveBackUnread(): Promise<void> {
    const { queue, claims } = this.#options;
    const unread = (await queue.claimedIds()).filter((id) => !claims.has(id));
    await queue.giveBack(unread.map((id) => ({ id, hasBegun: false })));
  }

  async #giveBack(isAll: boolean): Promise<void> {
    const { queue, claims } = this.#options;
    const returned = claims.unfinished.filter(({ hasBegun }) => isAll || !hasBegun);
    for (const { id } of returned) this.#drop(id);
    // Other replicas claim them after the lease if this call fails.
    if (returned.length > 0) await queue.giveBack(returned).catch(() => {});
  }
}
