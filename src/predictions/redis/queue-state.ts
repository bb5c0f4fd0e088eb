/** Polls Redis once a second: reads the figures of the queue, and ends predictions of any replica whose time limit has passed. */
import { codedError, messageOf, oneLine } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { DrainRate } from "../../pipeline/drain-rate.ts";
import type { StoreOutage } from "../store.ts";
import type { Figures, Queue } from "./queue.ts";

const TICK_MS = 1000;
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
  /** Result of the last poll. `start`: no poll has ended. `full`: Redis refuses new predictions because its memory is full. */
  #last: "start" | "away" | "full" | "ready" = "start";

  /** @param isWorker whether this node claims predictions @param onPoll called after each successful poll */
  constructor(queue: Queue, isWorker: () => boolean, onPoll: () => void) {
    this.#queue = queue;
    this.#isWorker = isWorker;
    this.#onPoll = onPoll;
    this.#timer = setInterval(() => void this.poll(), TICK_MS);
    this.#timer.unref();
  }

  get outage(): StoreOutage | undefined {
    if (this.#last === "ready") return undefined;
    return this.#last === "full" ? "full" : "queue";
  }

  /** Estimated milliseconds until a worker claims a new prediction; 0 for an unknown rate. */
  get waitMs(): number {
    return this.#wait.waitMs(performance.now());
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Polls Redis, unless a poll runs. Never throws. */
  async poll(): Promise<void> {
    if (this.#isPolling || !this.#queue.link.isInUse) return;
    this.#isPolling = true;
    const before = this.#last;
    try {
      const { figures, isFull, late } = await this.#queue.poll(this.#isWorker());
      await Promise.all(late.map((id) => this.#queue.endLate(id)));
      this.facts = figures;
      this.#wait.update(figures, performance.now());
      this.#last = isFull ? "full" : "ready";
      if (before === "start" || before === "away") log.info("Predictions are shared through the queue");
      if (isFull && before !== "full") log.warn("The memory of Redis is full: the queue takes no predictions");
      if (!isFull && before === "full") log.info("Redis has memory again: the queue takes predictions");
      this.#onPoll();
    } catch (error) {
      this.#last = "away";
      if (before !== "away") log.warn(`The queue cannot be used: ${oneLine(messageOf(codedError(error).cause))}`);
    } finally {
      this.#isPolling = false;
    }
  }
}
