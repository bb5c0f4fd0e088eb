/** One runner as the batcher sees it: the batches that it was given and that have not ended. */
import { type LeadTime, MOST_LEAD_MS } from "./lead-time.ts";

/** Runs a batch; one that is given while another runs is begun as soon as that ends. */
export type Run<T, R> = (items: readonly T[]) => Promise<R>;

/** Batches that a runner is given at once: one that runs, and the next. */
const MAX_IN_FLIGHT = 2;
/** Batches that are over sooner are not worth to be passed by. */
const LONG_MS = 2;
/** Items of one prediction in a batch from which it is one of many. */
const MANY = 4;

interface Given<T> {
  readonly batch: readonly T[];
  /** Found when it is asked for. */
  isBulk?: boolean;
}

export class BatchSlot<T extends { readonly lane: object }, R> {
  readonly run: Run<T, R>;
  readonly #lead: LeadTime;
  /** Of the batches: the first runs, a second one is committed. */
  readonly #given: Given<T>[] = [];
  #beganAtMs = 0;
  /** Of the batch that ended last. */
  #last = { size: 0, ms: 0, isBulk: false };

  constructor(run: Run<T, R>, lead: LeadTime) {
    this.run = run;
    this.#lead = lead;
  }

  get isIdle(): boolean {
    return this.#given.length === 0;
  }

  /** Whether the batch that runs, or ran last, is mostly of predictions of many items and takes long: what comes now had better not wait for such. */
  isLongBulk(nowMs: number): boolean {
    if (Math.max(this.#last.ms, this.runningForMs(nowMs)) < LONG_MS) return false;
    const [given] = this.#given;
    if (given === undefined) return this.#last.isBulk;
    given.isBulk ??= isBulk(given.batch);
    return given.isBulk;
  }

  /** When the batch that runs ends, if it takes as long as the last one did. */
  get freeAtMs(): number {
    return this.#beganAtMs + (this.#last.size === 0 ? this.#lead.lastMs : this.#last.ms);
  }

  /** When the batch after the one that runs is given; Infinity when it was. */
  commitAtMs(nowMs: number): number {
    if (this.#given.length >= MAX_IN_FLIGHT) return Infinity;
    // How long one of another size takes nobody knows.
    const leadMs = this.#given[0]?.batch.length === this.#last.size ? this.#lead.ms(nowMs) : MOST_LEAD_MS;
    return this.freeAtMs - leadMs;
  }

  /** When the batch that runs ends if it takes what `runMs` says of its size. */
  endAtMs(runMs: (size: number) => number): number {
    return this.#beganAtMs + runMs(this.#given[0]?.batch.length ?? 0);
  }

  /** How long the batch that runs has been running, in milliseconds; 0 when none is. */
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
    // One of another size tells nothing: only full ones are committed.
    if (size === this.#last.size) this.#lead.ran(ms, this.#last.ms, nowMs);
    this.#last = { size, ms, isBulk };
    this.#lead.lastMs = ms;
    // A batch that was committed begins now.
    this.#beganAtMs = nowMs;
    return ms;
  }
}

/** Whether half of a batch or more is of predictions with many items in it. */
function isBulk(batch: readonly { readonly lane: object }[]): boolean {
  const counts = new Map<object, number>();
  for (const { lane } of batch) counts.set(lane, (counts.get(lane) ?? 0) + 1);
  let ofMany = 0;
  for (const count of counts.values()) if (count >= MANY) ofMany += count;
  return 2 * ofMany >= batch.length;
}
