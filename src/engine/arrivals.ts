/** Learns the gaps in time between items that arrive in the queue. */

/** The histogram has two bins for each doubling of the gap, from 1/32 ms on. */
const STEPS_PER_OCTAVE = 2;
const SHORTEST_MS = 1 / 32;
const BINS = 18 * STEPS_PER_OCTAVE;
/** Each new gap weighs 1 % more than the gap before it, so mostly the newest hundred count. */
const GROWTH = 1.01;
const MAX_KEYS = 1024;
/** Shortest wait in milliseconds: timers are no finer. */
const FINEST_MS = 1;

export interface WaitQuestion {
  readonly items: number;
  /** Milliseconds since the newest arrival. */
  readonly silentMs: number;
  /** Expected arrivals during a batch that starts now. */
  readonly followers: number;
  /** Milliseconds of computing that are saved if the next item joins this batch instead of a later one. */
  readonly savedMs: number;
  /** Milliseconds that the next item adds to this batch. */
  readonly addedMs: number;
}

/** A histogram of the gaps between items that could share a batch. Old gaps count less. */
export class Arrivals {
  readonly #counts = new Float64Array(BINS);
  #newest = 1;
  #lastAtMs = new Map<string, number>();
  readonly #memoryMs: number;
  #perMs = 0;
  #perMsAtMs = 0;

  /** @param memoryMs time constant of the arrival rate in milliseconds: older items count less */
  constructor(memoryMs: number) {
    this.#memoryMs = memoryMs;
  }

  observe(key: string, atMs: number): void {
    this.#perMs = this.perMs(atMs) + 1 / this.#memoryMs;
    this.#perMsAtMs = atMs;
    const lastAtMs = this.#lastAtMs.get(key);
    if (lastAtMs === undefined && this.#lastAtMs.size >= MAX_KEYS) this.#lastAtMs = new Map();
    this.#lastAtMs.set(key, atMs);
    if (lastAtMs !== undefined) this.#count(binOf(atMs - lastAtMs));
  }

  perMs(nowMs: number): number {
    return this.#perMs * Math.exp((this.#perMsAtMs - nowMs) / this.#memoryMs);
  }

  /** Milliseconds since the last item with this key became ready; Infinity without one. */
  silentMs(key: string, nowMs: number): number {
    return nowMs - (this.#lastAtMs.get(key) ?? -Infinity);
  }

  /** Expected count of items within `withinMs`, if the last item came `silentMs` ago. */
  followers(silentMs: number, withinMs: number): number {
    const next = this.#gaps(binOf(silentMs), silentMs + withinMs);
    const { share, meanMs } = this.#gaps(0, withinMs);
    if (next.share === 0 || share === 0) return next.share;
    return next.share * Math.max(1, Math.min(share / (1 - share), withinMs / meanMs));
  }

  /**
   * Milliseconds to wait for the next item, counted from the newest arrival: the wait with the greatest expected gain.
   * The gain is the time that the next item saves, less the time that the waiting items lose. 0 if no wait gains time.
   */
  waitMs({ items, silentMs, followers, savedMs, addedMs }: WaitQuestion): number {
    const first = binOf(silentMs);
    const all = this.#sum(first);
    let [come, gained, best, until] = [0, 0, 0, 0];
    for (let bin = first; bin < BINS; bin++) {
      const gapMs = Math.max(0, middleOf(bin) - silentMs);
      if (gapMs > savedMs || all === 0) break;
      const share = (this.#counts[bin] ?? 0) / all;
      const lostMs = items * (gapMs + addedMs) + Math.max(0, followers - 1) * gapMs;
      come += share;
      gained += share * (savedMs - gapMs - lostMs);
      const inVainMs = items * Math.max(FINEST_MS, endOf(bin) - silentMs);
      const value = gained - (1 - come) * inVainMs;
      if (value > best) [best, until] = [value, endOf(bin)];
    }
    return until;
  }

  #count(bin: number): void {
    this.#counts[bin] = (this.#counts[bin] ?? 0) + this.#newest;
    this.#newest *= GROWTH;
    if (this.#newest < 1e100) return;
    for (let i = 0; i < BINS; i++) this.#counts[i] = (this.#counts[i] ?? 0) / this.#newest;
    this.#newest = 1;
  }

  #sum(first: number): number {
    let sum = 0;
    for (let bin = first; bin < BINS; bin++) sum += this.#counts[bin] ?? 0;
    return sum;
  }

  #gaps(first: number, mostMs: number): { share: number; meanMs: number } {
    let [count, ms] = [0, 0];
    for (let bin = first; bin < BINS && middleOf(bin) <= mostMs; bin++) {
      count += this.#counts[bin] ?? 0;
      ms += (this.#counts[bin] ?? 0) * middleOf(bin);
    }
    return count === 0 ? { share: 0, meanMs: 0 } : { share: count / this.#sum(first), meanMs: ms / count };
  }
}

function binOf(gapMs: number): number {
  const bin = Math.ceil(STEPS_PER_OCTAVE * Math.log2(Math.max(gapMs, SHORTEST_MS) / SHORTEST_MS));
  return Math.min(BINS - 1, bin);
}

/** The longest gap in a bin, in milliseconds. */
function endOf(bin: number): number {
  return SHORTEST_MS * 2 ** (bin / STEPS_PER_OCTAVE);
}

function middleOf(bin: number): number {
  return endOf(bin - 0.5);
}
