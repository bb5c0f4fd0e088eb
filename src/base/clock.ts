/** Time, so that tests can let it pass. */

export interface Clock {
  /** Milliseconds that only go up. */
  now(): number;
  /** @returns cancels it */
  after(delayMs: number, task: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, delayMs);
    return () => clearTimeout(timer);
  },
};

/** Its timers do not keep the process alive. */
export const monotonicClock: Clock = {
  now: () => performance.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
