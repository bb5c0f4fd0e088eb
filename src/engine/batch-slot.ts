/** The unfinished batches of one runner, for the batcher. */
import { type LeadTime, MOST_LEAD_MS } from "./lead-time.ts";

/** Runs a batch. A second batch starts as soon as the running batch ends. */
export type Run<T, R> = (items: readonly T[]) => Promise<R>;

/** A runner has at most a running batch and a committed batch. */
const MAX_IN_FLIGHT = 2;
/** Shorter batches need no express runner. */
const LONG_MS = 2;
/** A prediction with this many items in a batch is a large prediction. */
const MANY = 4;

interface Given<T> {
  readonly batch: readonly T[];
  /** Computed on demand. */
  isBulk?: boolean;
}

export class BatchSlot<T extends { readonly lane: object }, R> {
  readonly run: Run<T, R>;
  readonly #lead: LeadTime;
  /** The running batch, then the committed batch. */
  readonly #given: Given<T>[] = [];
  #beganAtMs = 0;
  /** The newest finished batch. */
  #last = { size: 0, ms: 0, isBulk: false };

  constructor(run: Run<T, R>, lead: LeadTime) {
    this.run = run;
    this.#lead = lead;
  }

  get isIdle(): boolean {
    return this.#given.length === 0;
  }

  /** Whether the running or newest batch is long and mostly of large predictions, so that new small predictions must not wait for it. */
  isLongBulk(nowMs: number): boolean {
    if (Math.max(this.#last.ms, this.runningForMs(nowMs)) < LONG_MS) return false;
    const [given] = this.#given;
    if (given === undefined) return this.#last.isBulk;
    given.isBulk ??= isBulk(given.batch);
    return given.isBulk;
  }

  /** Expected end of the running batch, from the time of the batch before. */
  get freeAtMs(): number {
    return this.#beganAtMs + (this.#last.size === 0 ? this.#lead.lastMs : this.#last.ms);
  }

  /** When to commit the next batch; Infinity once it is committed. */
  commitAtMs(nowMs: number): number {
    if (this.#given.length >= MAX_IN_FLIGHT) return Infinity;
    // The last batch says nothing about a batch of another size.
    const leadMs = this.#given[0]?.batch.length === this.#last.size ? this.#lead.ms(nowMs) : MOST_LEAD_MS;
    return this.freeAtMs - leadMs;
  }

  /** Expected end of the running batch, from the estimate `runMs` for its size. */
  endAtMs(runMs: (size: number) => number): number {
    return this.#beganAtMs + runMs(this.#given[0]?.batch.length ?? 0);
  }

  /** Milliseconds since the start of the running batch; 0 without one. */
  runningForMs(nowMs: number): number {
    return this.isIdle ? 0 : nowMs - this.#beganAtMs;
  }

  given(batch: readonly T[], nowMs: number): void {
    if (this.isIdle) this.#beganAtMs = nowMs;
    this.#given.push({ batch });
  }

  /** @returns how long the batch ran, in milliseconds */
  ended(nowMs: number): number {
    const ms = nowMs - this.#beganAtMs;
    const isBulk = this.isLongBulk(nowMs);
    const size = this.#given.shift()?.batch.length ?? 0;
    // Only full batches are committed, so batches of another size do not count.
    if (size === this.#last.size) this.#lead.ran(ms, this.#last.ms, nowMs);
    this.#last = { size, ms, isBulk };
    this.#lead.lastMs = ms;
    // The committed batch starts now.
    this.#beganAtMs = nowMs;
    return ms;
  }
}

/** Whether at least half of a batch belongs to large predictions. */
function isBulk(batch: readonly { readonly lane: object }[]): boolean {
  const counts = new Map<object, number>();
  for (const { lane } of batch) counts.set(lane, (counts.get(lane) ?? 0) + 1);
  let ofMany = 0;
  for (const count of counts.values()) if (count >= MANY) ofMany += count;
  return 2 * ofMany >= batch.length;
}
