const POLL_MS = 20;

/** Resolves when the condition holds, or after about `maxMs` milliseconds. */
export async function until(isDone: () => boolean, maxMs: number): Promise<void> {
  const endMs = performance.now() + maxMs;
  while (!isDone() && performance.now() < endMs) await Bun.sleep(POLL_MS);
}
