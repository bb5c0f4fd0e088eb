/** Priorities of the server's processes when busy threads outnumber the cores. */
import { readdirSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

/** Added to `nice`. The thread then gets about a third of the time of a thread without it. */
const NICENESS = 5;
/** Added to `nice` for work that may wait. The thread then gets about a thirtieth. */
export const IDLE_NICENESS = 15;
const LAST = 19;

/**
 * Gives this process a lower priority than the engine process: a delayed forward pass delays its whole batch and the
 * next. On two cores, large networks are served 6 % faster. On Linux each thread has a priority, which new threads and
 * children inherit. Users without privileges cannot raise it again.
 */
export function yieldToEngine(niceness = NICENESS): void {
  if (process.platform !== "linux") return;
  const nice = Math.min(LAST, getPriority() + niceness);
  for (const thread of readdirSync("/proc/self/task")) {
    try {
      setPriority(Number(thread), nice);
    } catch {
      // The thread has ended.
    }
  }
}
