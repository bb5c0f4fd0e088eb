/** One runner as the batcher sees it: the batches that it was given and that have not ended. */

/** Runs a batch; one that is given while another runs is begun as soon as that ends. */
export type Run<T, R> = (items: readonly T[]) => Promise<R>;

/** Batches that a runner is given at once: one that runs, and the next. */
const MAX_IN_FLIGHT = 2;
/**
 * How long before a batch ends the next one is committed, at the latest: the event loop may be busy with something else for a while. With
 * 5 ms a network whose batches take 13 ms was served 6 % more slowly.
 */
const LEAD_MS = 20;

export class BatchSlot<T, R> {
  readonly run: Run<T, R>;
  /** Of the batches: the first runs, a second one is committed. */
  readonly #sizes: number[] = [];
  #beganAtMs = 0;
  #lastMs = 0;

  constructor(run: Run<T, R>) {
    this.run = run;
  }

  get isIdle(): boolean {
    return this.#sizes.length === 0;
  }

  /** When the batch after the one that runs is given; Infinity when it was. */
  get commitAtMs(): number {
    return this.#sizes.length >= MAX_IN_FLIGHT ? Infinity : this.#beganAtMs + this.#lastMs - LEAD_MS;
  }

  /** When the batch that runs ends if it takes what `runMs` says of its size. */
  endAtMs(runMs: (size: number) => number): number {
    return this.#beganAtMs + runMs(this.#sizes[0] ?? 0);
  }

  /** How long the batch that runs has been running, in milliseconds; 0 when none is. */
  runningForMs(nowMs: number): number {
    return this.isIdle ? 0 : nowMs - this.#beganAtMs;
  }

  given(size: number, nowMs: number): void {
    if (this.isIdle) this.#beganAtMs = nowMs;
    this.#sizes.push(size);
  }

  /** @returns how long the batch ran, in milliseconds */
  ended(nowMs: number): number {
    this.#sizes.shift();
    this.#lastMs = nowMs - this.#beganAtMs;
    // A batch that was committed begins now.
    this.#beganAtMs = nowMs;
    return this.#lastMs;
  }
}
