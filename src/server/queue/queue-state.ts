/** How the queue stands, looked at once a second; ends what is late on the way, whichever replica it came to. */
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
};

export class QueueState {
  readonly #queue: Queue;
  readonly #mailbox: Mailbox;
  readonly #rate = new DrainRate();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #onTick: Set<() => void> = new Set();
  #isLooking = false;
  /** Whether this replica runs predictions. */
  isWorker: () => boolean = () => false;
  facts = none;
  /** Whether the queue answered when it was looked at last; undefined before that. */
  #answered: boolean | undefined;

  constructor(queue: Queue, mailbox: Mailbox) {
    this.#queue = queue;
    this.#mailbox = mailbox;
    this.#timer = setInterval(() => void this.look(), TICK_MS);
    this.#timer.unref();
  }

  get isConnected(): boolean {
    return this.#answered === true;
  }

  /** Calls back after each look that found the queue there. */
  onTick(callback: () => void): void {
    this.#onTick.add(callback);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#onTick.clear();
  }

  /** About how long a prediction that comes now waits for its turn, in milliseconds; 0 while too little is known. */
  get waitMs(): number {
    return this.#rate.waitMs(this.facts.items, performance.now());
  }

  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const before = this.facts;
      this.facts = await this.#queue.tend(this.#mailbox.lastId, this.isWorker());
      const now = performance.now();
      const { items, endedItems } = this.facts;
      // The counter began anew with the queue.
      this.#rate.ended(before === none ? 0 : Math.max(0, endedItems - before.endedItems), now, items === 0);
      if (items > 0) this.#rate.begun(now);
      if (this.#answered !== true) log.info("Predictions are shared through the queue");
      this.#answered = true;
      for (const callback of this.#onTick) callback();
    } catch (error) {
      if (isConnecting(error)) return;
      const { cause } = codedError(error);
      if (this.#answered !== false) log.warn(`The queue cannot be used: ${oneLine(messageOf(cause))}`);
      this.#answered = false;
    } finally {
      this.#isLooking = false;
    }
  }
}
