/** How long a batch takes by how many items it has, learned from the batches that ran. */

/** Of the newest batch in the estimate for its size, once many of that size have run. */
const NEWEST_SHARE = 0.1;
/** Of the newest batch in what all sizes have in common: how fast the device is now. */
const SPEED_SHARE = 0.05;
/** Batches of a size from which one says more about the device than about the size. */
const FAMILIAR = 8;
/** One batch counts as at most about twice, or half, of what was expected: others may have had the machine for a while. */
const MAX_SURPRISE = Math.LN2;
/** How many mean deviations make a time sure: two standard deviations of noise that is about normal. */
const SURE_DEVIATIONS = 2.5;

/** What is known of one size. */
interface Known {
  readonly size: number;
  /** Batches seen, up to where older ones no longer count. */
  weight: number;
  /** Milliseconds at the device's usual speed. */
  ms: number;
  /** The same, made not to fall as sizes grow, and the weight of what it is made of. */
  monotoneMs: number;
  poolWeight: number;
}

/**
 * An exponentially weighted estimate for each size that was seen, made monotone by pooling neighbours that contradict each other (isotonic
 * regression by pool-adjacent-violators, Ayer et al. 1955), with straight lines between sizes: curves with steps, as GPUs have them, are
 * learned as they are. What all sizes share, the speed of the device, is learned apart: sizes that have not run lately keep up with it.
 */
export class BatchTimes {
  /** By size. */
  #known: Known[] = [];
  #speed = 1;
  /** Mean deviation of the logarithm of a time from what was expected. */
  #deviation = 0.05;

  /** Sizes that are known well, in order. */
  *sizes(): Generator<number> {
    for (const { size, poolWeight } of this.#known) if (poolWeight >= FAMILIAR) yield size;
  }

  /** A batch of `size` items took `ms`. */
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
      // Between sizes that are known, one batch is believed half.
      const isBetween = at > 0 && known !== undefined;
      const expected = isBetween ? this.ms(rounded) : taken;
      const first = expected * Math.exp(limited(Math.log(taken / expected)) / 2);
      this.#known.splice(at, 0, { size: rounded, weight: 1, ms: first / this.#speed, monotoneMs: 0, poolWeight: 0 });
    }
    this.#pool();
  }

  /** Milliseconds that a batch is expected to take; 0 when nothing is known. More than any seen is taken to be in proportion. */
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

  /** Where the first known size of at least `size` stands. */
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

/** Every size up to 64 is learned by itself, of larger ones 32 between one and its double; steps at round sizes keep their place. */
function roundUp(size: number): number {
  const grain = 2 ** Math.max(0, Math.ceil(Math.log2(size)) - 6);
  return Math.ceil(size / grain) * grain;
}

function limited(surprise: number): number {
  return Math.min(MAX_SURPRISE, Math.max(-MAX_SURPRISE, surprise));
}
