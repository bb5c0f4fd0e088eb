/** Makes outputs of all lists in turn, and lets the event loop turn in between: one may be megabytes, and a batch of them would hold up everybody. */
import { OwnersInTurn } from "../../base/collections/owners-in-turn.ts";

/** Longest time spent making outputs before the event loop turns: a batch of small ones is done at once. */
const MAX_HOLD_MS = 2;

export class OutputTurns {
  /** By list; each makes an output. */
  readonly #waiting = new OwnersInTurn<() => void>();
  /** Time that outputs have taken in this turn of the loop. */
  #tookMs = 0;
  #isScheduled = false;
  readonly #isHeld: () => boolean;

  /** @param isHeld whether none is to be made for now, as those before are large and still under way */
  constructor(isHeld: () => boolean = () => false) {
    this.#isHeld = isHeld;
  }

  /** Whether one more is made at once. */
  get isOpen(): boolean {
    return this.#tookMs <= MAX_HOLD_MS && !this.#isHeld();
  }

  /** One was made. */
  took(ms: number): void {
    this.#tookMs += ms;
    this.#schedule();
  }

  /** Lets the making of one wait for its turn. */
  add(list: object, make: () => void): void {
    this.#waiting.add(list, make);
    this.#schedule();
  }

  /** Once for all of this turn of the loop. */
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
