/** Ends that the queue does not know yet: told in one call at a time, and again until it knows them or nobody waits for them any more. */
import type { Charge } from "../memory/charge.ts";
import type { End } from "./queue-messages.ts";

export interface UntoldEnd extends End {
  readonly charge: Charge;
  /** In `performance.now()` milliseconds. */
  readonly deadlineMs: number;
}

export interface UntoldEndsOptions {
  /** Tells the queue; rejects while it cannot. */
  readonly tell: (ends: readonly UntoldEnd[]) => Promise<void>;
  /** The queue knows it, or has given it up. */
  readonly onGone: (end: UntoldEnd) => void;
  /** Nothing is left. */
  readonly onEmpty: () => void;
}

/** Of one call, which holds up those behind it. */
const MAX_ENDS = 64;
const MAX_BYTES = 2 ** 20;
/** Before others are told after some that could not be. */
const RETRY_MS = 200;
/** An end that nobody hears for so long after its time is one that others have given up. */
const LATE_MS = 60_000;

export class UntoldEnds {
  readonly #options: UntoldEndsOptions;
  readonly #ends: UntoldEnd[] = [];
  #telling: Promise<void> | undefined;

  constructor(options: UntoldEndsOptions) {
    this.#options = options;
  }

  /** It is told in the next turn of the loop, with what else ends in this one. */
  add(end: UntoldEnd): void {
    this.#ends.push(end);
    this.#telling ??= this.#tellAll();
  }

  /** Resolves when nothing is left. */
  async flush(): Promise<void> {
    await this.#telling;
  }

  async #tellAll(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (this.#ends.length > 0) {
      const batch = this.#ends.splice(0, this.#nextCount());
      try {
        await this.#options.tell(batch);
        for (const end of batch) this.#options.onGone(end);
      } catch {
        this.#putBack(batch);
        await Bun.sleep(RETRY_MS);
      }
    }
    this.#telling = undefined;
    this.#options.onEmpty();
  }

  /** Behind all others: they may be told although these cannot. */
  #putBack(batch: readonly UntoldEnd[]): void {
    const untilMs = performance.now() - LATE_MS;
    for (const end of batch) {
      if (end.deadlineMs < untilMs) this.#options.onGone(end);
      else this.#ends.push(end);
    }
  }

  #nextCount(): number {
    let bytes = 0;
    const count = this.#ends.findIndex((end, i) => {
      bytes += end.bytes;
      return i > 0 && (i === MAX_ENDS || bytes > MAX_BYTES);
    });
    return count < 0 ? this.#ends.length : count;
  }
}
