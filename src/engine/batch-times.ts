/** Learns how long a batch takes, by its size. */

/** Least weight of the newest batch in the estimate for its size. */
const NEWEST_SHARE = 0.1;
/** Share of the newest batch in the estimate of the device's current speed. */
const SPEED_SHARE = 0.05;
/** After this many batches of a size, its estimate counts as reliable. */
const FAMILIAR = 8;
/**
 * Largest deviation that counts, as a logarithm: twice or half of the expected time. Other programs disturb single
 * batches.
 */
const MAX_SURPRISE = Math.LN2;
/**
 * Nearly every batch ends within its mean time plus this many mean deviations (two standard deviations of normal
 * noise).
 */
const SURE_DEVIATIONS = 2.5;

interface Known {
  readonly size: number;
  /** Weight of the past batches of this size, at most `1 / NEWEST_SHARE`. */
  weight: number;
  /** Estimated milliseconds at the device's usual speed. */
  ms: number;
  /** Estimate and total weight after merging with neighbouring sizes, so that no larger size has a shorter time. */
  monotoneMs: number;
  poolWeight: number;
}

/**
 * An exponentially weighted estimate for each size, with straight lines between sizes. No larger size has a shorter
 * time: sizes that contradict this are merged (isotonic regression by pool-adjacent-violators, Ayer et al. 1955). The
 * speed of the device is a separate estimate, so that sizes without recent batches follow it.
 */
export class BatchTimes {
  #known: Known[] = [];
  #speed = 1;
  /** Mean deviation of the logarithm of a time from its expectation. */
  #deviation = 0.05;

  /** Sizes with reliable estimates, in ascending order. */
  *sizes(): Generator<number> {
    for (const { size, poolWeight } of this.#known) if (poolWeight >= FAMILIAR) yield size;
  }

  observe(size: number, ms: number): void {
    const taken = Math.max(ms, 1e-3);
    const rounded = roundUp(size);
    const at = this.#firstFrom(rounded);
    const known = this.#known[at];
    if (known?.size === rounded) {
      const surprise = limited(Math.log(taken / this.ms(rounded)));
      this.#deviation += SPEED_SHARE * (Math.abs(surprise) - this.#deviation);
      if (known.weight >= FAMILIAR) this.#speed *= Math.exp(SPEED_SHARE * surprise);
      const share = Math.max(NEWEST_SHARE, 1 / (known.weight + 1));
      known.ms *= Math.exp(share * limited(Math.log(taken / this.#speed / known.ms)));
      known.weight = Math.min(known.weight + 1, 1 / NEWEST_SHARE);
    } else {
      // The first estimate between two known sizes is the geometric mean of the measured and the interpolated time.
      const isBetween = at > 0 && known !== undefined;
      const expected = isBetween ? this.ms(rounded) : taken;
      const first = expected * Math.exp(limited(Math.log(taken / expected)) / 2);
      this.#known.splice(at, 0, { size: rounded, weight: 1, ms: first / this.#speed, monotoneMs: 0, poolWeight: 0 });
    }
    this.#pool();
  }

  /**
   * Expected milliseconds of a batch; 0 without any batch. Above the largest known size the time is proportional to the
   * size; below the smallest known size it is constant.
   */
  ms(size: number): number {
    const at = this.#firstFrom(size);
    const [below, above] = [this.#known[at - 1], this.#known[at]];
    if (above === undefined) return below === undefined ? 0 : (this.#speed * below.monotoneMs * size) / below.size;
    if (below === undefined) return this.#speed * above.monotoneMs;
    const part = (size - below.size) / (above.size - below.size);
    return this.#speed * (below.monotoneMs + part * (above.monotoneMs - below.monotoneMs));
  }

  /** Milliseconds within which nearly every batch of `size` ends. */
  sureMs(size: number): number {
    return this.ms(size) * Math.exp(SURE_DEVIATIONS * this.#deviation);
  }

  #firstFrom(size: number): number {
    let [low, high] = [0, this.#known.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#known[middle]?.size ?? Infinity) < size) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #pool(): void {
    const pools: { ms: number; weight: number; count: number }[] = [];
    for (const { ms, weight } of this.#known) {
      let pool = { ms, weight, count: 1 };
      for (let last = pools.at(-1); last !== undefined && last.ms > pool.ms; last = pools.at(-1)) {
        const sum = last.weight + pool.weight;
        pool = {
          ms: (last.ms * last.weight + pool.ms * pool.weight) / sum,
          weight: sum,
          count: last.count + pool.count,
        };
        pools.pop();
      }
      pools.push(pool);
    }
    let at = 0;
    for (const { ms, weight, count } of pools) {
      for (const end = at + count; at < end; at++) {
        const known = this.#known[at];
        if (known !== undefined) [known.monotoneMs, known.poolWeight] = [ms, weight];
      }
    }
  }
}

/** Sizes up to 64 have separate estimates. Larger sizes are rounded up to one of 32 sizes per octave. */
function roundUp(size: number): number {
  const grain = 2 ** Math.max(0, Math.ceil(Math.log2(size)) - 6);
  return Math.ceil(size / grain) * grain;
}

function limited(surprise: number): number {
  return Math.min(MAX_SURPRISE, Math.max(-MAX_SURPRISE, surprise));
}
