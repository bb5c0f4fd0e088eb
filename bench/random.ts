/** Random numbers that are the same at every run: xorshift (Marsaglia, 2003). */

/** Whole numbers of 32 bits. */
export function wholeNumbers(): () => number {
  let state = 20;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}
