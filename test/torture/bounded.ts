/** Waits with a time limit: for a promise, or for a condition that has no event. */

/** Milliseconds for an action that takes a healthy server a moment, even on a busy machine. */
export const SOON_MS = 60_000;

/**
 * Resolves with the promise. @param what names it in the error @throws Error if the promise has not settled within
 * `limitMs`
 */
export async function within<T>(promise: Promise<T>, what: string, limitMs = SOON_MS): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`${what}: not within ${limitMs / 1000} s`)), limitMs);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for a condition. @returns whether it has become true within `limitMs` */
export async function comesTrue(condition: () => boolean | Promise<boolean>, limitMs = SOON_MS): Promise<boolean> {
  const untilMs = performance.now() + limitMs;
  // Checks less and less often, because each check takes processor time from the server under test.
  for (let pauseMs = 10; !(await condition()); pauseMs = Math.min(1.2 * pauseMs, 100)) {
    if (performance.now() > untilMs) return false;
    await Bun.sleep(pauseMs);
  }
  return true;
}

/**
 * Waits for a condition. @param what its name for the error, or a function that makes it at the time limit @throws
 * Error at the time limit
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string),
  limitMs = SOON_MS,
): Promise<void> {
  if (await comesTrue(condition, limitMs)) return;
  throw new Error(`${typeof what === "string" ? what : what()}: not within ${limitMs / 1000} s`);
}
