/** Limits log lines that clients can cause: one line of each kind per second. */
import { type Clock, monotonicClock } from "./clock.ts";

/** Writes a line. `suffix` tells the number of suppressed lines. */
type Write = (...suffix: readonly string[]) => void;

interface Suppressed {
  /** Writes the last suppressed line. */
  write: Write | undefined;
  count: number;
}

const PERIOD_MS = 1000;

export class LogLimit {
  readonly #clock: Clock;
  /** By kind, for kinds with a line in the last second. */
  readonly #suppressed = new Map<string, Suppressed>();

  constructor(clock = monotonicClock) {
    this.#clock = clock;
  }

  /**
   * Writes a line, unless the last second had a line of this kind. The last suppressed line is written when the second ends.
   *
   * @param kind one of a small set: each kind takes memory for a second
   */
  write(kind: string, write: Write): void {
    const suppressed = this.#suppressed.get(kind);
    if (suppressed === undefined) {
      this.#begin(kind);
      write();
    } else {
      suppressed.write = write;
      suppressed.count += 1;
    }
  }

  #begin(kind: string): void {
    const suppressed: Suppressed = { write: undefined, count: 0 };
    this.#suppressed.set(kind, suppressed);
    this.#clock.after(PERIOD_MS, () => {
      this.#suppressed.delete(kind);
      if (suppressed.write === undefined) return;
      this.#begin(kind);
      suppressed.write(
        ...(suppressed.count === 1 ? [] : [`(and ${suppressed.count - 1} more like it in the last second)`]),
      );
    });
  }
}

/** The limit of this process. */
export const logLimit = new LogLimit();
