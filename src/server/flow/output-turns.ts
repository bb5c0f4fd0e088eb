/**
 * Spreads `postprocess` calls over turns of the event loop, one prediction after another. All rows of a large batch at
 * once would block the loop.
 */
import { RoundRobin } from "../../base/collections/round-robin.ts";

/** Most milliseconds for outputs in one turn of the event loop. */
const MAX_HOLD_MS = 2;

export class OutputTurns {
  readonly #waiting = new RoundRobin<() => void>();
  /** Milliseconds spent on outputs in this turn of the event loop. */
  #tookMs = 0;
  #isScheduled = false;
  readonly #isHeld: () => boolean;

  /** `isHeld` tells whether outputs must wait because large outputs are still becoming text. */
  constructor(isHeld: () => boolean = () => false) {
    this.#isHeld = isHeld;
  }

  /** Whether the next output may be made at once. */
  get isOpen(): boolean {
    return this.#tookMs <= MAX_HOLD_MS && !this.#isHeld();
  }

  /** Notes that an output was made in `ms` milliseconds. */
  took(ms: number): void {
    this.#tookMs += ms;
    this.#schedule();
  }

  /** Queues a function that makes an output. Predictions are served round-robin. */
  add(list: object, make: () => void): void {
    this.#waiting.add(list, make);
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
    while (!this.#waiting.isEmpty && this.isOpen) {
      const beganMs = performance.now();
      this.#waiting.next()?.();
      this.took(performance.now() - beganMs);
    }
    if (!this.#waiting.isEmpty) this.#schedule();
  };
}
