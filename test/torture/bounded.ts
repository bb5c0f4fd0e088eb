/** Waiting that ends: for a promise, or for a condition that nothing tells of. */

/** Longest time for anything that a healthy server does in a moment, also on a machine that is busy with something else. */
export const SOON_MS = 60_000;

/** @throws Error when the promise has not settled in time */
export async function within<T>(promise: Promise<T>, what: string, limitMs = SOON_MS): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`${what}: not within ${limitMs / 1000} s`)), limitMs);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** @returns whether the condition came true in time */
export async function comesTrue(condition: () => boolean | Promise<boolean>, limitMs = SOON_MS): Promise<boolean> {
  const untilMs = performance.now() + limitMs;
  // Less and less often: what is asked takes processes that would come to it.
  for (let pauseMs = 10; !(await condition()); pauseMs = Math.min(1.2 * pauseMs, 100)) {
    if (performance.now() > untilMs) return false;
    await Bun.sleep(pauseMs);
  }
  return true;
}

/**
 * @param what was awaited; a function is called when it did not come true
 * @throws Error when the condition does not come true in time
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string),
  limitMs = SOON_MS,
): Promise<void> {
  if (await comesTrue(condition, limitMs)) return;
  throw new Error(`${typeof what === "string" ? what : what()}: not within ${limitMs / 1000} s`);
}
