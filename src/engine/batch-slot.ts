/** The batches of one runner: the running batch, and the committed one, which the runner got ahead of time. */

/** Runs a batch on a runner. A call during a batch queues the next batch there. */
export type Run<T, R> = (items: readonly T[]) => Promise<R>;

/** A runner has at most a running batch and a committed batch, which runs next. */
const MAX_IN_FLIGHT = 2;
/** Small predictions wait for a running batch if it takes fewer milliseconds than this. */
const LONG_MS = 2;
/** A prediction counts as large if a batch has at least this many of its items. */
const MANY = 4;

/**
 * A runner gets its next batch at least this many milliseconds before the expected end of the running batch. Timers are
 * no finer.
 */
const LEAST_LEAD_MS = 2;
/** A runner gets its next batch at most this many milliseconds early, because items cannot join it afterwards. */
const MOST_LEAD_MS = 20;
/** Milliseconds for which the delay of a timer or the early end of a batch is remembered. */
const RECENT_MS = 2000;

class RecentMaximum {
  #value = 0;
  #atMs = -Infinity;

  observe(value: number, nowMs: number): void {
    if (value < this.at(nowMs)) return;
    this.#value = value;
    this.#atMs = nowMs;
  }

  at(nowMs: number): number {
    return nowMs - this.#atMs > RECENT_MS ? 0 : this.#value;
  }
}

/**
 * How early a runner gets its next batch before the running one ends. Without this lead, the device would wait for the
 * event loop. Recent delays of timers and early ends of batches increase the lead.
 */
export class LeadTime {
  readonly #timerDelay = new RecentMaximum();
  readonly #earliness = new RecentMaximum();
  /** Milliseconds of the newest batch on any runner: the estimate for a runner without batches so far. */
  lastMs = 0;

  ms(nowMs: number): number {
    return Math.min(MOST_LEAD_MS, LEAST_LEAD_MS + this.#timerDelay.at(nowMs) + this.#earliness.at(nowMs));
  }

  woke(atMs: number, nowMs: number): void {
    this.#timerDelay.observe(nowMs - atMs, nowMs);
  }

  ran(ms: number, expectedMs: number, nowMs: number): void {
    this.#earliness.observe(expectedMs - ms, nowMs);
  }
}

interface Given<T> {
  readonly batch: readonly T[];
  /** Whether large predictions have at least half of the batch; computed on demand. */
  isBulk?: boolean;
}

export class BatchSlot<T extends { readonly lane: object }, R> {
  readonly run: Run<T, R>;
  readonly #lead: LeadTime;
  /** The running batch, then the committed batch, which runs next. */
  readonly #given: Given<T>[] = [];
  #beganAtMs = 0;
  /** When the running batch last yielded partial outputs. */
  #yieldedAtMs = 0;
  #last = { size: 0, ms: 0, isBulk: false };

  constructor(run: Run<T, R>, lead: LeadTime) {
    this.run = run;
    this.#lead = lead;
  }

  get isIdle(): boolean {
    return this.#given.length === 0;
  }

  /**
   * Whether the running batch (without one, the newest) is mostly of large predictions, and it or the batch before took
   * at least `LONG_MS`. New small predictions should not wait for it.
   */
  isLongBulk(nowMs: number): boolean {
    if (Math.max(this.#last.ms, this.runningForMs(nowMs)) < LONG_MS) return false;
    const [given] = this.#given;
    if (given === undefined) return this.#last.isBulk;
    given.isBulk ??= isBulk(given.batch);
    return given.isBulk;
  }

  /** Expected end of the running batch, if it takes as long as the batch before. */
  get freeAtMs(): number {
    return this.#beganAtMs + (this.#last.size === 0 ? this.#lead.lastMs : this.#last.ms);
  }

  /** When to hand over the next batch ahead of time; Infinity once it is handed over. */
  commitAtMs(nowMs: number): number {
    if (this.#given.length >= MAX_IN_FLIGHT) return Infinity;
    // The time of the last batch says nothing about a batch of another size.
    const leadMs = this.#given[0]?.batch.length === this.#last.size ? this.#lead.ms(nowMs) : MOST_LEAD_MS;
    return this.freeAtMs - leadMs;
  }

  /** Expected end of the running batch, from the estimate `runMs` for its size. */
  endAtMs(runMs: (size: number) => number): number {
    return this.#beganAtMs + runMs(this.#given[0]?.batch.length ?? 0);
  }

  runningForMs(nowMs: number): number {
    return this.isIdle ? 0 : nowMs - this.#beganAtMs;
  }

  /** Milliseconds since the running batch began or last yielded partial outputs; 0 without a batch. */
  silentForMs(nowMs: number): number {
    return this.isIdle ? 0 : nowMs - Math.max(this.#beganAtMs, this.#yieldedAtMs);
  }

  /** Notes that a batch yielded partial outputs. @returns whether the batch runs on this runner */
  yielded(batch: readonly T[], nowMs: number): boolean {
    const isHere = this.#given[0]?.batch === batch;
    if (isHere) this.#yieldedAtMs = nowMs;
    return isHere;
  }

  given(batch: readonly T[], nowMs: number): void {
    if (this.isIdle) this.#beganAtMs = nowMs;
    this.#given.push({ batch });
  }

  ended(nowMs: number): number {
    const ms = nowMs - this.#beganAtMs;
    const isBulk = this.isLongBulk(nowMs);
    const size = this.#given.shift()?.batch.length ?? 0;
    // The lead grows if a batch takes less time than the batch before. Batches of different sizes are not compared.
    if (size === this.#last.size) this.#lead.ran(ms, this.#last.ms, nowMs);
    this.#last = { size, ms, isBulk };
    this.#lead.lastMs = ms;
    this.#beganAtMs = nowMs;
    return ms;
  }
}

function isBulk(batch: readonly { readonly lane: object }[]): boolean {
  const counts = new Map<object, number>();
  for (const { lane } of batch) counts.set(lane, (counts.get(lane) ?? 0) + 1);
  let ofMany = 0;
  for (const count of counts.values()) if (count >= MANY) ofMany += count;
  return 2 * ofMany >= batch.length;
}
