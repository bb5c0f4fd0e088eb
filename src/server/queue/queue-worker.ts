/** Takes predictions from the queue as fast as this process runs them, keeps them while they run, and takes over those of replicas that are gone. */

import { log } from "../../base/log.ts";
import type { Engine } from "../../engine/engine.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { PredictionService } from "../predictions/service.ts";
import type { Mailbox } from "./mailbox.ts";
import type { Queue } from "./queue.ts";
import type { Taken, TakenRequest } from "./queue-messages.ts";
import { BLOCK_MS, isGroupMissing, type RedisLink } from "./redis-link.ts";
import type { Held, TakenWork } from "./taken-work.ts";

export interface QueueWorkerOptions {
  readonly queue: Queue;
  /** For reads that block. */
  readonly link: RedisLink;
  readonly mailbox: Mailbox;
  readonly taken: TakenWork;
  readonly service: PredictionService;
  readonly engine: Pick<Engine, "isReady" | "maxBatchSize" | "instances">;
  readonly memory: MemoryAccount;
  readonly metrics: Metrics;
}

/** Before what failed is tried again, and how often an engine that is not there is looked at. */
const RETRY_MS = 100;
/** Before a prediction whose body could not be had goes back to the queue. */
const GIVE_BACK_MS = 1000;
/** How often clients of other replicas see what is under way here. */
const TELL_MS = 200;
/** Entries of one read. */
const MAX_COUNT = 256;
/** By how much of the difference the last entry counts for how much room one takes. */
const MEAN = 0.2;
/** Longest that ends are kept for a queue that is away when the worker stops. */
const FLUSH_MS = 5000;

export class QueueWorker {
  readonly #options: QueueWorkerOptions;
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  #isStopping = false;
  #hasLeft = false;
  /** Of one entry, of late. */
  #meanShare = 1;
  #room = Promise.withResolvers<void>();
  readonly #working: Promise<void>;
  #isReclaiming = false;
  #isTelling = false;
  #renewedMs = performance.now();

  constructor(options: QueueWorkerOptions) {
    this.#options = options;
    const { queue, mailbox, taken } = options;
    taken.onRoom = () => this.#room.resolve();
    mailbox.listen({ cancelled: (id) => this.#cancel(id) });
    this.#timers.push(
      setInterval(() => void this.renew(), queue.leaseMs / 3),
      setInterval(() => void this.#reclaim(), queue.leaseMs / 2),
      setInterval(() => void this.#tell(), TELL_MS),
    );
    for (const timer of this.#timers) timer.unref();
    this.#working = this.#work();
  }

  /** Whether it takes predictions, or has some. */
  get isThere(): boolean {
    const { engine, taken } = this.#options;
    return !this.#hasLeft && (engine.isReady || taken.unfinished.length > 0);
  }

  /** Takes nothing new, gives back what has not begun, and after `maxMs` what has not ended. */
  async stop(maxMs: number): Promise<void> {
    const { queue, link, taken } = this.#options;
    this.#isStopping = true;
    link[Symbol.dispose]();
    this.#room.resolve();
    await this.#working;
    await this.#leaveUnread().catch(() => {});
    await this.#giveBack(false);
    const untilMs = performance.now() + maxMs;
    while (taken.unfinished.length > 0 && performance.now() < untilMs) {
      this.#room = Promise.withResolvers<void>();
      await Promise.race([this.#room.promise, Bun.sleep(Math.min(1000, untilMs - performance.now()))]);
    }
    const left = taken.unfinished.length;
    if (left > 0) log.warn(`${left} predictions go back to the queue: they have not ended in time`);
    await this.#giveBack(true);
    await Promise.race([taken.flush(), Bun.sleep(FLUSH_MS)]);
    this.#hasLeft = true;
    await queue.leave().catch(() => {});
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** Says that this worker is there, and hears what it no longer has. */
  async renew(): Promise<void> {
    const { queue, taken } = this.#options;
    const { ids } = taken;
    try {
      for (let i = 0; i < ids.length; i += MAX_COUNT) {
        const { lost, cancelled } = await queue.renew(ids.slice(i, i + MAX_COUNT));
        for (const id of lost) this.#drop(id);
        for (const id of cancelled) this.#cancel(id);
      }
      this.#renewedMs = performance.now();
    } catch {
      // The next one is soon.
    }
  }

  async #work(): Promise<void> {
    const { engine, memory, queue } = this.#options;
    while (!this.#isStopping) {
      try {
        if (!engine.isReady || !memory.hasRoom("bodies", 0)) await Bun.sleep(RETRY_MS);
        else {
          const count = this.#roomFor();
          if (count === 0) await this.#roomLater();
          else await this.#takeSome(count);
        }
      } catch (error) {
        if (this.#isStopping) return;
        if (isGroupMissing(error)) await queue.makeGroup().catch(() => {});
        else await Bun.sleep(RETRY_MS);
      }
    }
  }

  async #takeSome(count: number): Promise<void> {
    const { queue, link } = this.#options;
    const askedMs = performance.now();
    const taken = await queue.take(link, count, BLOCK_MS);
    // Stopped for so long it may have lost what it was given.
    if (taken.requests.length > 0) await this.#begin(taken, 0, performance.now() - askedMs > queue.leaseMs / 2);
  }

  async #begin({ requests, givenUp }: Taken, reclaimed: number, isOld: boolean): Promise<void> {
    const { taken, metrics, engine } = this.#options;
    // A long one leaves room for others, which have their turns beside it.
    const most = Math.max(1, (engine.maxBatchSize * engine.instances) >> 2);
    metrics.queueTook({ taken: requests.length, reclaimed, givenUp });
    const all = requests.map((request) => {
      const share = Math.min(request.count, most);
      this.#meanShare += MEAN * (share - this.#meanShare);
      // The queue has lost one that runs here, and its client sent it again.
      this.#drop(request.id);
      return { request, held: taken.take(request, share) };
    });
    if (isOld) await this.renew();
    for (const { request, held } of all) if (taken.isHeld(held)) void this.#load(request, held);
  }

  /** Begins one when its body is here; others go on meanwhile. Never throws. */
  async #load({ bytes, load }: TakenRequest, held: Held): Promise<void> {
    const { taken, service, memory, queue } = this.#options;
    using _body = memory.add("bodies", bytes);
    try {
      const request = await load();
      if (!this.#isStopping && taken.isHeld(held)) void service.begin(request);
    } catch {
      // Its body cannot be had now: another worker may have it.
      await Bun.sleep(GIVE_BACK_MS);
      if (!taken.isHeld(held)) return;
      taken.drop(held.id);
      await queue.giveBack([{ id: held.id, hasBegun: false }]).catch(() => {});
    }
  }

  /** Entries that there is room for: a few batches are kept at hand, so that the device never waits for one. */
  #roomFor(): number {
    const { engine, taken } = this.#options;
    const batch = engine.maxBatchSize * engine.instances;
    const room = Math.max(8, 3 * batch) - taken.share;
    return room < batch ? 0 : Math.min(MAX_COUNT, Math.max(1, Math.round(room / this.#meanShare)));
  }

  #roomLater(): Promise<void> {
    this.#room = Promise.withResolvers<void>();
    return this.#room.promise;
  }

  async #reclaim(): Promise<void> {
    const { queue, taken, engine } = this.#options;
    if (this.#isReclaiming || this.#isStopping || !engine.isReady) return;
    this.#isReclaiming = true;
    try {
      // After a time without the queue all look as if they were gone: they are given the time to say that they are not.
      if (performance.now() - this.#renewedMs > queue.leaseMs / 2) await this.renew();
      else {
        for (let after = "-"; after !== "" && !this.#isStopping; ) {
          const count = this.#roomFor();
          if (count === 0) return;
          const { givenUp, next, ...got } = await queue.reclaim(after, count);
          const requests = got.requests.filter(({ id }) => !taken.has(id));
          if (requests.length > 0) log.info(`Takes over ${requests.length} predictions of a replica that is gone`);
          await this.#begin({ requests, givenUp }, requests.length, false);
          after = next;
        }
      }
    } catch {
      // The next one is soon.
    } finally {
      this.#isReclaiming = false;
    }
  }

  async #tell(): Promise<void> {
    const { queue, taken, service } = this.#options;
    taken.makeRoom();
    if (this.#isTelling) return;
    this.#isTelling = true;
    try {
      const progress = taken.progress((id) => service.underWay(id));
      if (progress.length > 0) await queue.tell(progress);
      taken.told(progress);
    } catch {
      // It is told with the next.
    } finally {
      this.#isTelling = false;
    }
  }

  #cancel(id: string): void {
    const { service } = this.#options;
    const record = service.underWay(id);
    if (record !== undefined) void service.cancel(record.kind, id);
  }

  /** Others have it. */
  #drop(id: string): void {
    if (this.#options.taken.drop(id)) this.#options.service.leave(id);
  }

  /** What came as the connection was closed goes back as well. */
  async #leaveUnread(): Promise<void> {
    const { queue, taken } = this.#options;
    const unread = (await queue.own()).filter((id) => !taken.has(id));
    await queue.giveBack(unread.map((id) => ({ id, hasBegun: false })));
  }

  async #giveBack(isAll: boolean): Promise<void> {
    const { queue, taken } = this.#options;
    const given = taken.unfinished.filter(({ hasBegun }) => isAll || !hasBegun);
    for (const { id } of given) this.#drop(id);
    // Where the queue is away, others find them when the lease is over.
    if (given.length > 0) await queue.giveBack(given).catch(() => {});
  }
}
