/** The batching policy for a latency target: how large the next batch is, and how long it waits for more items. */
import { Arrivals } from "./arrivals.ts";
import type { BatchPolicy, Waiting } from "./batch-policy.ts";
import { BatchTimes } from "./batch-times.ts";

/**
 * A smaller batch is chosen if it has this many times the throughput of a batch with all waiting items. On some
 * devices, batch times rise in steps.
 */
const STEP = 1.25;
/** A batch is halved if the half has at least this share of its throughput, because the half ends sooner. */
const AS_GOOD = 0.95;
/** Small batches must process at least this multiple of the arrival rate; otherwise the queue grows. */
const KEEPS_UP = 1.1;
/** Longest wait of the oldest item, as a share of the time that waiting can save. */
const OLDEST_SHARE = 0.3;

/** Time constant of the arrival rate, as a multiple of the latency target. */
const MEMORY = 2;

/**
 * A batch has the size with the highest throughput, limited so that its oldest item meets the target. The limit does
 * not hold if such small batches would be slower than the arrivals, because the queue would then only grow.
 */
export class LatencyTarget implements BatchPolicy {
  /** Target in milliseconds, from the time when an item is ready to the end of its batch. */
  readonly ms: number;
  readonly times = new BatchTimes();
  readonly #arrivals: Arrivals;

  constructor(ms: number) {
    this.ms = ms;
    this.#arrivals = new Arrivals(MEMORY * ms);
  }

  arrived(key: string, atMs: number): void {
    this.#arrivals.observe(key, atMs);
  }

  ran(size: number, ms: number): void {
    this.times.observe(size, ms);
  }

  sizeOf({ key, ready, oldestAtMs }: Waiting, nowMs: number, beginMs: number): number {
    const best = this.#best(key, ready, nowMs);
    const leftMs = oldestAtMs + this.ms - beginMs;
    if (this.times.sureMs(best) <= leftMs) return best;
    const inTime = this.#within(leftMs, best);
    return inTime > 0 && this.#keepsUp(inTime, nowMs) ? inTime : best;
  }

  runMs(size: number): number {
    return this.times.ms(size);
  }

  dueAtMs({ key, ready, oldestAtMs }: Waiting, nowMs: number): number {
    const { times } = this;
    const silentMs = this.#arrivals.silentMs(key, nowMs);
    const followers = this.#arrivals.followers(silentMs, times.ms(ready));
    const addedMs = times.ms(ready + 1) - times.ms(ready);
    const savedMs = times.ms(Math.max(1, followers)) - addedMs;
    const waitMs = this.#arrivals.waitMs({ items: ready, silentMs, followers, savedMs, addedMs });
    if (waitMs === 0) return -Infinity;
    const latestMs = oldestAtMs + Math.min(OLDEST_SHARE * savedMs, this.ms - times.sureMs(ready + 1));
    return Math.min(nowMs - silentMs + waitMs, latestMs);
  }

  #best(key: string, ready: number, nowMs: number): number {
    let best = ready;
    // Batch times are linear between two known sizes, so throughput is highest at one of them.
    for (const size of this.times.sizes()) {
      if (size >= ready) break;
      if (this.#rate(size) > STEP * this.#rate(best)) best = size;
    }
    if (best < ready && this.#isRestCostly(best, ready, this.#arrivals.silentMs(key, nowMs))) best = ready;
    const enough = AS_GOOD * this.#rate(best);
    while (best > 1 && this.#rate(best >> 1) >= enough && this.#keepsUp(best >> 1, nowMs)) best >>= 1;
    return best;
  }

  /**
   * Whether a batch of `size` items, and then the rest with new arrivals, takes longer than all ready items now, and
   * then the new arrivals.
   */
  #isRestCostly(size: number, ready: number, silentMs: number): boolean {
    const { times } = this;
    const coming = this.#arrivals.followers(silentMs, times.ms(size));
    const apart = times.ms(size) + times.ms(ready - size + coming);
    const together = times.ms(ready) + Math.min(1, coming) * times.ms(coming);
    return apart > together;
  }

  #keepsUp(size: number, nowMs: number): boolean {
    return this.#rate(size) >= KEEPS_UP * this.#arrivals.perMs(nowMs);
  }

  #rate(size: number): number {
    return size / Math.max(this.times.ms(size), 1e-3);
  }

  /** The largest size up to `most` whose batch ends within `ms`; 0 if even a single item takes longer. */
  #within(ms: number, most: number): number {
    let [low, high] = [0, most];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.times.sureMs(middle) <= ms) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
