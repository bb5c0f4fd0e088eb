/** Polls the queue once a second: reads its figures, and ends expired predictions of all replicas. */
import { codedError, messageOf, oneLine } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { DrainRate } from "../flow/drain-rate.ts";
import type { Mailbox } from "./mailbox.ts";
import type { Queue } from "./queue.ts";
import type { QueueFacts } from "./queue-messages.ts";
import { isConnecting } from "./redis-link.ts";

const TICK_MS = 1000;

const none: QueueFacts = {
  items: 0,
  bytes: 0,
  endedItems: 0,
  waiting: 0,
  taken: 0,
  ageMs: 0,
  workers: 0,
  kept: 0,
  keptBytes: 0,
  isFull: false,
};

export class QueueState {
  readonly #queue: Queue;
  readonly #mailbox: Mailbox;
  readonly #rate = new DrainRate();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #onTick: Set<() => void> = new Set();
  #isPolling = false;
  /** Whether this replica runs predictions. */
  isWorker: () => boolean = () => false;
  facts = none;
  /** Whether the last poll succeeded; undefined before the first. */
  #answered: boolean | undefined;

  constructor(queue: Queue, mailbox: Mailbox) {
    this.#queue = queue;
    this.#mailbox = mailbox;
    this.#timer = setInterval(() => void this.poll(), TICK_MS);
    this.#timer.unref();
  }

  get isConnected(): boolean {
    return this.#answered === true;
  }

  /** Calls back after each successful poll. */
  onTick(callback: () => void): void {
    this.#onTick.add(callback);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#onTick.clear();
  }

  /** Expected wait of a new prediction, in milliseconds; 0 while the rate is unknown. */
  get waitMs(): number {
    return this.#rate.waitMs(this.facts.items, performance.now());
  }

  async poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const before = this.facts;
      this.facts = await this.#queue.tend(this.#mailbox.lastId, this.isWorker());
      const now = performance.now();
      const { items, endedItems, isFull } = this.facts;
      // The counter starts again with a new queue.
      this.#rate.ended(before === none ? 0 : Math.max(0, endedItems - before.endedItems), now, items === 0);
      if (items > 0) this.#rate.begun(now);
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
