/** Turns of the event loop: counts them, and holds one. */

/** Blocks the thread. */
export function busy(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Counts the turns of the event loop, until the counter is disposed. */
export function loopTurns(): Disposable & { readonly count: number } {
  let count = 0;
  const turn = () => {
    count += 1;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  return {
    get count() {
      return count;
    },
    [Symbol.dispose]: () => clearImmediate(next),
  };
}
