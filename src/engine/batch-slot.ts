/** One runner as the batcher sees it: the batches that it was given and that have not ended. */
import { type LeadTime, MOST_LEAD_MS } from "./lead-time.ts";

/** Runs a batch; one that is given while another runs is begun as soon as that ends. */
export type Run<T, R> = (items: readonly T[]) => Promise<R>;

/** Batches that a runner is given at once: one that runs, and the next. */
const MAX_IN_FLIGHT = 2;
/** Batches that are over sooner are not worth to be passed by. */
const LONG_MS = 2;

export class BatchSlot<T, R> {
  readonly run: Run<T, R>;
  readonly #lead: LeadTime;
  /** Of the batches: the first runs, a second one is committed. */
  readonly #given: { readonly size: number; readonly isBulk: boolean }[] = [];
  #beganAtMs = 0;
  /** Of the batch that ended last. */
  #last = { size: 0, ms: 0 };

  constructor(run: Run<T, R>, lead: LeadTime) {
    this.run = run;
    this.#lead = lead;
  }

  get isIdle(): boolean {
    return this.#given.length === 0;
  }

  /** Whether the batch that runs is of few predictions, and those of its kind take long: what comes now had better not wait for it. */
  isLongBulk(nowMs: number): boolean {
    return this.#given[0]?.isBulk === true && Math.max(this.#last.ms, this.runningForMs(nowMs)) >= LONG_MS;
  }

  /** When the batch that runs ends, if it takes as long as the last one did. */
  get freeAtMs(): number {
    return this.#beganAtMs + (this.#last.size === 0 ? this.#lead.lastMs : this.#last.ms);
  }

  /** When the batch after the one that runs is given; Infinity when it was. */
  commitAtMs(nowMs: number): number {
    if (this.#given.length >= MAX_IN_FLIGHT) return Infinity;
    // How long one of another size takes nobody knows.
    const leadMs = this.#given[0]?.size === this.#last.size ? this.#lead.ms(nowMs) : MOST_LEAD_MS;
    return this.freeAtMs - leadMs;
  }

  /** When the batch that runs ends if it takes what `runMs` says of its size. */
  endAtMs(runMs: (size: number) => number): number {
    return this.#beganAtMs + runMs(this.#given[0]?.size ?? 0);
  }

  /** How long the batch that runs has been running, in milliseconds; 0 when none is. */
  runningForMs(nowMs: number): number {
    return this.isIdle ? 0 : nowMs - this.#beganAtMs;
  }

  /** @param isBulk whether the batch is of predictions with many items each */
  given(size: number, isBulk: boolean, nowMs: number): void {
    if (this.isIdle) this.#beganAtMs = nowMs;
    this.#given.push({ size, isBulk });
  }

  /** @returns how long the batch ran, in milliseconds */
  ended(nowMs: number): number {
    const size = this.#given.shift()?.size ?? 0;
    const ms = nowMs - this.#beganAtMs;
    // One of another size tells nothing: only full ones are committed.
    if (size === this.#last.size) this.#lead.ran(ms, this.#last.ms, nowMs);
    this.#last = { size, ms };
    this.#lead.lastMs = ms;
    // A batch that was committed begins now.
    this.#beganAtMs = nowMs;
    return ms;
  }
}
