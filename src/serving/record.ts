/** What predictions and demo predictions have in common: an id, a time limit, an end, and those who wait for it. */

export type Status = "pending" | "running" | "success" | "failed";

/** How a record ended, with everything that a client may read of it as JSON text: formatted once, exact in bytes. */
export interface Outcome {
  readonly status: "success" | "failed";
  /** The members of the record's JSON object that say how it ended, without braces. */
  readonly members: string;
}

export interface RecordOptions {
  readonly id: string;
  /** Inputs of the request, which count until the record ends. */
  readonly count: number;
  /** Bytes of the request's body, which count until the record ends. */
  readonly bytes: number;
  /** When its time is up, in `Date.now()` milliseconds. */
  readonly deadlineMs: number;
  readonly onEnd: (record: PredictionRecord) => void;
}

/** Once it has an outcome nothing about it changes any more. */
export abstract class PredictionRecord {
  readonly id: string;
  readonly count: number;
  readonly bytes: number;
  readonly deadlineMs: number;
  readonly createdAtMs = Date.now();
  startedAtMs: number | undefined;
  finishedAtMs: number | undefined;
  outcome: Outcome | undefined;
  #onEnd: ((record: PredictionRecord) => void) | undefined;
  #waiters: (() => void)[] = [];
  #abort: AbortController | undefined;

  constructor({ id, count, bytes, deadlineMs, onEnd }: RecordOptions) {
    this.id = id;
    this.count = count;
    this.bytes = bytes;
    this.deadlineMs = deadlineMs;
    this.#onEnd = onEnd;
  }

  get status(): Status {
    if (this.outcome !== undefined) return this.outcome.status;
    return this.startedAtMs === undefined ? "pending" : "running";
  }

  get isOver(): boolean {
    return this.outcome !== undefined;
  }

  /** Inputs that have an output. */
  abstract get itemsSucceeded(): number;

  /** Bytes of what a client can read of it. */
  get resultBytes(): number {
    return this.outcome?.members.length ?? 0;
  }

  /** Fires when the record ends; made only for those who ask. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.outcome !== undefined) this.#abort.abort();
    return this.#abort.signal;
  }

  /** Ends it before its time, e.g. with "Canceled"; does nothing to one that has ended. */
  end(errorMessage: string): void {
    if (this.outcome === undefined) this.finish({ status: "failed", members: this.failure(errorMessage) });
  }

  /** Calls back once, at the end; not for one that has ended. */
  onceOver(callback: () => void): void {
    this.#waiters.push(callback);
  }

  /** Takes a callback back. */
  forgo(callback: () => void): void {
    this.#waiters = this.#waiters.filter((waiter) => waiter !== callback);
  }

  /** The members of a failure. */
  protected abstract failure(errorMessage: string): string;

  /** Lets go of everything that only the way to the end needed. */
  protected abstract release(): void;

  protected finish(outcome: Outcome): void {
    this.finishedAtMs = Date.now();
    this.outcome = outcome;
    this.release();
    this.#abort?.abort();
    this.#abort = undefined;
    const waiters = this.#waiters;
    this.#waiters = [];
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.(this);
    for (const callback of waiters) callback();
  }
}
