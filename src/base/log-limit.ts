/** Limits log lines that clients can cause: one line of each kind per second. */
import { type Clock, monotonicClock } from "./clock.ts";

/** Writes a line. `suffix` counts the omitted lines of the same kind; it is absent if there are none. */
type Write = (...suffix: readonly string[]) => void;

interface Suppressed {
  /** Writes the last suppressed line; undefined if no line was suppressed. */
  write: Write | undefined;
  count: number;
}

const PERIOD_MS = 1000;

export class LogLimit {
  readonly #clock: Clock;
  /** Kinds with a line in the last second, and the lines suppressed since. */
  readonly #suppressed = new Map<string, Suppressed>();

  constructor(clock = monotonicClock) {
    this.#clock = clock;
  }

  /**
   * Writes a line, unless a line of this kind was written in the last second. When the second ends, writes the last
   * suppressed line.
   * @param kind one of a small set, because each kind takes memory for a second
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

/** The limit that all code of this process shares. */
export const logLimit = new LogLimit();
