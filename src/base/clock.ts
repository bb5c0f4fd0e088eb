/** A source of time and timers. Tests pass a simulated clock. */

export interface Clock {
  /** Monotonic time in milliseconds. */
  now(): number;
  /** Runs `task` after a delay. @returns a function that cancels the task */
  after(delayMs: number, task: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(delayMs, task) {
    const timer = setTimeout(task, delayMs);
    return () => clearTimeout(timer);
  },
};

/** A clock whose timers do not keep the process alive. */
export const monotonicClock: Clock = {
  ...systemClock,
  after(delayMs, task) {
    const timer = setTimeout(task, delayMs).unref();
    return () => clearTimeout(timer);
  },
};
