/** Waiting that ends: for a promise, or for a condition that nothing tells of. */

/** Limit for actions that take a healthy server a moment, on a busy machine. */
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
  // Polling slows down, because each look takes time from the processes under test.
  for (let pauseMs = 10; !(await condition()); pauseMs = Math.min(1.2 * pauseMs, 100)) {
    if (performance.now() > untilMs) return false;
    await Bun.sleep(pauseMs);
  }
  return true;
}

/**
 * @param what the name of the condition, for the error; a function is called at the timeout
 * @throws Error at the timeout
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string),
  limitMs = SOON_MS,
): Promise<void> {
  if (await comesTrue(condition, limitMs)) return;
  throw new Error(`${typeof what === "string" ? what : what()}: not within ${limitMs / 1000} s`);
}
