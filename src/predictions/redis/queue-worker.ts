/**
 * Runs predictions of the queue on this replica. Claims as many predictions as the engine can run, renews their leases, and claims the predictions of
 * replicas that have ended.
 */

import { log } from "../../base/log.ts";
import { until } from "../../base/until.ts";
import type { Engine } from "../../engine/engine.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import type { PredictionMetrics } from "../metrics.ts";
import type { PredictionService } from "../service.ts";
import type { Claim, ClaimedPredictions } from "./claimed-predictions.ts";
import type { Mailbox } from "./mailbox.ts";
import { MAX_COUNT, type Queue } from "./queue.ts";
import type { Claimed, ClaimedRequest } from "./queue-messages.ts";
import { BLOCK_MS, isGroupMissing, type RedisLink } from "./redis-link.ts";

export interface QueueWorkerOptions {
  readonly queue: Queue;
  /** Redis connection for reads that block. */
  readonly link: RedisLink;
  readonly mailbox: Mailbox;
  readonly claims: ClaimedPredictions;
  readonly service: PredictionService;
  readonly engine: Pick<Engine, "isReady" | "maxBatchSize" | "instances">;
  /** Number of fronts of this server. Each front claims an equal share of the predictions that the engine can run. */
  readonly fronts: number;
  readonly memory: MemoryAccount;
  readonly metrics: PredictionMetrics;
}

/** Milliseconds to wait after a failure, or while the engine is not ready. */
const RETRY_MS = 100;
/** Milliseconds before a prediction whose body cannot be loaded goes back to the queue. */
const GIVE_BACK_MS = 1000;
/** Milliseconds between reports of progress. */
const REPORT_MS = 200;
/** Weight of the newest prediction in `#meanShare`. */
const MEAN_WEIGHT = 0.2;
/** Maximum milliseconds to wait, when the replica stops, until Redis has acknowledged all outcomes. */
const FLUSH_MS = 5000;

/**
 * The share of one front, in inputs, of a batch of the engine, and of what the server claims at most. Claimed inputs for three batches keep the device
 * busy.
 */
export function capacityOf(
  { maxBatchSize, instances }: Pick<Engine, "maxBatchSize" | "instances">,
  fronts: number,
): { readonly batch: number; readonly most: number } {
  const batch = maxBatchSize * instances;
  return { batch: batch / fronts, most: Math.max(8, 3 * batch) / fronts };
}

export class QueueWorker {
  readonly #options: QueueWorkerOptions;
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #isStopping = false;
  #hasLeft = false;
  /** Moving average of the capacity that a prediction uses, in inputs. */
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

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Stops claiming. Returns predictions that have not begun to the queue at once, and all others after `maxMs` milliseconds. */
  async stop(maxMs: number): Promise<void> {
    const { queue, link, claims } = this.#options;
    this.#isStopping = true;
    link[Symbol.dispose]();
    this.#capacity.resolve();
    await this.#claiming;
    await this.#giveBack(false);
    await until(() => claims.unfinished.length === 0, maxMs);
    const count = claims.unfinished.length;
    if (count > 0) log.warn(`${count} predictions go back to the queue: they have not ended in time`);
    await this.#giveBack(true);
    await Promise.race([claims.flush(), Bun.sleep(FLUSH_MS)]);
    this.#hasLeft = true;
    await queue.leave().catch(() => {});
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Renews the leases of all claimed predictions. Stops predictions that another replica has claimed or a client has canceled. */
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
      // The timer calls `renew` again.
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
    // If this process was suspended meanwhile, other replicas may have claimed the predictions.
    const isOld = performance.now() - askedMs > queue.leaseMs / 2;
    if (claimed.requests.length > 0) await this.#begin(claimed, 0, isOld);
  }

  async #begin({ requests, givenUp }: Claimed, reclaimed: number, isOld: boolean): Promise<void> {
    const { claims, metrics, engine } = this.#options;
    // A prediction with many inputs uses at most the capacity of a quarter of a batch, so that other predictions run beside it.
    const maxShare = Math.max(1, (engine.maxBatchSize * engine.instances) >> 2);
    metrics.queueTook({ taken: requests.length, reclaimed, givenUp });
    const added = requests.map((request) => {
      const share = Math.min(request.count, maxShare);
      this.#meanShare += MEAN_WEIGHT * (share - this.#meanShare);
      // If this replica has claimed the id before, Redis lost that prediction, and its client sent it again.
      this.#drop(request.id);
      return { request, claim: claims.add(request, share) };
    });
    if (isOld) await this.renew();
    for (const { request, claim } of added) if (claims.isUnfinished(claim)) void this.#load(request, claim);
  }

  /** Loads the body of a claimed prediction and starts it. Never throws. */
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
      // Another replica may be able to load the body.
      await Bun.sleep(GIVE_BACK_MS);
      if (!claims.isUnfinished(claim)) return;
      claims.drop(claim.id);
      await queue.giveBack([claim.id]).catch(() => {});
    }
  }

  /** Number of predictions to claim now; 0 while less than this front's share of a batch is free. */
  #freeCount(): number {
    const { engine, claims, fronts } = this.#options;
    const { batch, most } = capacityOf(engine, fronts);
    const free = most - claims.share;
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
      // After an outage of Redis all leases have ended. Each replica first renews its own, so that no running prediction changes its replica.
      if (performance.now() - this.#renewedMs > queue.leaseMs / 2) await this.renew();
      else {
        for (let after = "-"; after !== "" && !this.#isStopping; ) {
          const count = this.#freeCount();
          if (count === 0) return;
          const { givenUp, next, ...claimed } = await queue.reclaim(after, count);
          const requests = claimed.requests.filter(({ id }) => !claims.has(id));
          const { length } = requests;
          const taken = length === 1 ? "a prediction" : `${length} predictions`;
          if (length > 0) log.info(`Takes over ${taken} of a replica that ended`);
          await this.#begin({ requests, givenUp }, length, false);
          after = next;
        }
      }
    } catch {
      // The timer calls `#reclaim` again.
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
      // The next report has the same progress.
    } finally {
      this.#isReporting = false;
    }
  }

  #cancel(id: string): void {
    const { service } = this.#options;
    const record = service.live.get(id)?.record;
    if (record !== undefined) void service.cancel(record.kind, id);
  }

  /** Stops running a prediction that another replica has claimed or will claim. A prediction that has ended here stays. */
  #drop(id: string): void {
    if (this.#options.claims.drop(id)) this.#options.service.live.withdraw(id);
  }

  async #giveBack(isAll: boolean): Promise<void> {
    const { queue, claims } = this.#options;
    const returned = claims.unfinished.filter(({ hasBegun }) => isAll || !hasBegun);
    for (const { id } of returned) this.#drop(id);
    // If this call fails, other replicas claim the predictions after the leases.
    await queue.giveBack(returned.map(({ id }) => id)).catch(() => {});
  }
}
