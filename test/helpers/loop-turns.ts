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
