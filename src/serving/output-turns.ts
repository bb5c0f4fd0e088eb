/** Makes outputs of all lists in turn, and lets the event loop turn in between: one may be megabytes, and a batch of them would hold up everybody. */

/** Longest time spent making outputs before the event loop turns: a batch of small ones is done at once. */
const MAX_HOLD_MS = 2;

export class OutputTurns {
  /** By list. */
  readonly #waiting = new Map<object, (() => void)[]>();
  /** Time that outputs have taken since others last had their turn. */
  #tookMs = 0;
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
  }

  /** Lets the making of one wait for its turn. */
  add(list: object, make: () => void): void {
    if (this.#waiting.size === 0) setImmediate(() => this.#runMore());
    const waiting = this.#waiting.get(list);
    if (waiting === undefined) this.#waiting.set(list, [make]);
    else waiting.push(make);
  }

  #runMore(): void {
    this.#tookMs = 0;
    for (const [list, waiting] of this.#waiting) {
      if (!this.isOpen) break;
      const make = waiting.shift();
      // What is put back is met again after all others.
      this.#waiting.delete(list);
      if (make === undefined) continue;
      this.#waiting.set(list, waiting);
      const beganMs = performance.now();
      make();
      this.took(performance.now() - beganMs);
    }
    if (this.#waiting.size > 0) setImmediate(() => this.#runMore());
  }
}
