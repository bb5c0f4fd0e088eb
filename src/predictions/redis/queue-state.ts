/** Polls Redis once a second: reads the figures of the queue, and ends predictions of any replica whose time limit has passed. */
import { codedError, messageOf, oneLine } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { DrainRate } from "../../pipeline/drain-rate.ts";
import type { Queue, RedisFacts } from "./queue.ts";
import { isConnecting } from "./redis-link.ts";

const TICK_MS = 1000;

/** Estimates how long a new prediction waits until a replica claims it, from the recent rate of claims. */
export class QueueWait {
  #facts: Pick<RedisFacts, "ended" | "waiting" | "taken"> | undefined;
  readonly #rate = new DrainRate(() => this.#facts?.taken ?? 0);

  update(facts: Pick<RedisFacts, "ended" | "waiting" | "taken">, nowMs: number): void {
    const before = this.#facts ?? facts;
    this.#facts = facts;
    // The difference is negative after replicas have returned predictions, or when the queue is new.
    const claimed = Math.max(0, facts.ended - before.ended + facts.taken - before.taken);
    if (claimed > 0) this.#rate.begun(claimed, nowMs);
    if (facts.waiting > 0) this.#rate.busy(nowMs);
    else this.#rate.idle();
  }

  /** The estimated wait in milliseconds; 0 while the rate is unknown. */
  waitMs(nowMs: number): number {
    return this.#rate.waitMs(this.#facts?.waiting ?? 0, nowMs);
  }
}

const none: RedisFacts = {
  items: 0,
  ended: 0,
  waiting: 0,
  taken: 0,
  ageMs: 0,
  workers: 0,
  isFull: false,
};

export class QueueState {
  readonly #queue: Queue;
  readonly #wait = new QueueWait();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #onTick: Set<() => void> = new Set();
  #isPolling = false;
  /** Whether this replica runs predictions of the queue. */
  isWorker: () => boolean = () => false;
  facts = none;
  /** Whether the last poll succeeded; undefined before the first poll. */
  #answered: boolean | undefined;

  constructor(queue: Queue) {
    this.#queue = queue;
    this.#timer = setInterval(() => void this.poll(), TICK_MS);
    this.#timer.unref();
  }

  get isConnected(): boolean {
    return this.#answered === true;
  }

  /** Adds a function that is called after each successful poll. */
  onTick(callback: () => void): void {
    this.#onTick.add(callback);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#onTick.clear();
  }

  /** Estimated milliseconds until a replica claims a new prediction; 0 for an unknown rate. */
  get waitMs(): number {
    return this.#wait.waitMs(performance.now());
  }

  async poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const before = this.facts;
      this.facts = await this.#queue.tend(this.isWorker());
      this.#wait.update(this.facts, performance.now());
      const { isFull } = this.facts;
      if (this.#answered !== true) log.info("Predictions are shared through the queue");
      this.#answered = true;
      if (isFull && !before.isFull) log.warn("The memory of Redis is full: the queue takes no predictions");
      if (!isFull && before.isFull) log.info("Redis has memory again: the queue takes predictions");
      for (const callback of this.#onTick) callback();
    } catch (error) {
      if (isConnecting(error)) return;
      const { cause } = codedError(error);
      if (this.#answered !== false) log.warn(`The queue cannot be used: ${oneLine(messageOf(cause))}`);
      this.#answered = false;
    } finally {
      this.#isPolling = false;
    }
  }
}
