/** Turns of the event loop: waits for one, counts them, and holds one. */

/** Resolves in the next turn, when all due callbacks have run. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Runs the callbacks of promises: the end of a batch or of a load takes several. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

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
