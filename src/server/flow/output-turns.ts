/** Makes the outputs of all lists in turn, a few for each turn of the event loop: a batch of large outputs would block the loop. */
import { RoundRobin } from "../../base/collections/round-robin.ts";

/** Longest time for outputs in one turn of the event loop. */
const MAX_HOLD_MS = 2;

export class OutputTurns {
  readonly #waiting = new RoundRobin<() => void>();
  /** Time for outputs in this turn of the loop. */
  #tookMs = 0;
  #isScheduled = false;
  readonly #isHeld: () => boolean;

  /** @param isHeld whether outputs must wait, because large outputs are still under way */
  constructor(isHeld: () => boolean = () => false) {
    this.#isHeld = isHeld;
  }

  /** Whether the next output may be made at once. */
  get isOpen(): boolean {
    return this.#tookMs <= MAX_HOLD_MS && !this.#isHeld();
  }

  /** An output was made. */
  took(ms: number): void {
    this.#tookMs += ms;
    this.#schedule();
  }

  /** Makes an output in its turn. */
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
