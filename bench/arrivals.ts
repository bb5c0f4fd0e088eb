/** When requests come that do not wait for one another: as those of many clients do, at random and at the same rate on average. */

/**
 * Times in milliseconds from the beginning, in order: a Poisson process, whose gaps are exponentially distributed.
 *
 * @param options.random gives numbers from 0 to below 1
 */
export function poissonArrivals(options: {
  readonly perSecond: number;
  readonly seconds: number;
  readonly random: () => number;
}): number[] {
  const { perSecond, seconds, random } = options;
  const times: number[] = [];
  const meanGapMs = 1000 / perSecond;
  for (;;) {
    const time = (times.at(-1) ?? 0) - Math.log(1 - random()) * meanGapMs;
    if (time >= seconds * 1000) return times;
    times.push(time);
  }
}

/** Random whole numbers of 32 bits that are the same at every run: xorshift (Marsaglia, 2003). */
export function wholeNumbers(): () => number {
  let state = 20;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}
