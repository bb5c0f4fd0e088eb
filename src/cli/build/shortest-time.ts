/** Measures the shortest time of a task. */

/** Milliseconds after which the task is not repeated. */
const REPEAT_MS = 200;
const REPEATS = 20;

export async function shortestMs(task: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  let shortest = Infinity;
  for (let i = 0; i < REPEATS && (i === 0 || performance.now() - started < REPEAT_MS); i++) {
    const begin = performance.now();
    await task();
    shortest = Math.min(shortest, performance.now() - begin);
  }
  return shortest;
}
