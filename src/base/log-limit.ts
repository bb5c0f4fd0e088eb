/** Bounds what clients can have written into the logs: one line of each kind a second. */
import { type Clock, monotonicClock } from "./clock.ts";

/** Writes a line; `more` ends it, and says how many like it were left out. */
type Write = (...more: readonly string[]) => void;

interface LeftOut {
  /** The last one. */
  write: Write | undefined;
  count: number;
}

const PERIOD_MS = 1000;

export class LogLimit {
  readonly #clock: Clock;
  /** Since a line of that kind was written, less than a second ago. */
  readonly #leftOut = new Map<string, LeftOut>();

  constructor(clock = monotonicClock) {
    this.#clock = clock;
  }

  /**
   * Writes a line at once, unless one of its kind was written within the last second; then the last of that second is, at its end.
   *
   * @param kind one of few: each is kept for a second
   */
  write(kind: string, write: Write): void {
    const leftOut = this.#leftOut.get(kind);
    if (leftOut === undefined) {
      this.#begin(kind);
      write();
    } else {
      leftOut.write = write;
      leftOut.count += 1;
    }
  }

  #begin(kind: string): void {
    const leftOut: LeftOut = { write: undefined, count: 0 };
    this.#leftOut.set(kind, leftOut);
    this.#clock.after(PERIOD_MS, () => {
      this.#leftOut.delete(kind);
      if (leftOut.write === undefined) return;
      this.#begin(kind);
      leftOut.write(...(leftOut.count === 1 ? [] : [`(and ${leftOut.count - 1} more like it in the last second)`]));
    });
  }
}

/** One for all lines of this process. */
export const logLimit = new LogLimit();
