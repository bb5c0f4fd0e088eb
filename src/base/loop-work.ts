/** Spreads many short pieces of work over turns of the event loop. All pieces at once would block the loop. */
import { Fifo } from "./collections/fifo.ts";

/** After this many milliseconds, no other piece begins in this turn of the event loop. */
const MAX_HOLD_MS = 2;

export class LoopWork {
  readonly #waiting = new Fifo<() => void>();
  /** Milliseconds spent on pieces in this turn of the event loop. */
  #tookMs = 0;
  #isScheduled = false;
  readonly #isHeld: () => boolean;

  /** @param isHeld whether pieces must wait for other work */
  constructor(isHeld: () => boolean = () => false) {
    this.#isHeld = isHeld;
  }

  /** Whether the next piece may run at once. */
  get isOpen(): boolean {
    return this.#tookMs <= MAX_HOLD_MS && !this.#isHeld();
  }

  /** Notes that a piece took `ms` milliseconds. */
  took(ms: number): void {
    this.#tookMs += ms;
    this.#schedule();
  }

  /** Queues a piece of work for a later turn. */
  add(run: () => void): void {
    this.#waiting.push(run);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#turned);
  }

  readonly #turned = (): void => {
    this.#isScheduled = false;
    this.#tookMs = 0;
    while (this.#waiting.length > 0 && this.isOpen) {
      const beganMs = performance.now();
      this.#waiting.shift()?.();
      this.took(performance.now() - beganMs);
    }
    if (this.#waiting.length > 0) this.#schedule();
  };
}
