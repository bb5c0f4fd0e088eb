/** Priorities of the server's processes, which matter when busy threads outnumber the cores. */
import { readdirSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

/** Added to `nice`. The thread then gets about a third of the time of a thread with the default. */
const NICENESS = 5;
/**
 * Added to `nice` for work that may wait. The thread then gets about a thirtieth of the time of a thread with the
 * default.
 */
export const IDLE_NICENESS = 15;
const LAST = 19;

/**
 * Gives this process a lower priority than the engine process, which runs the model. A delayed forward pass delays its
 * batch and the next one. On two cores, large networks are served 6 % faster. On Linux the priority is that of each
 * thread; new threads and children inherit it. Users without privileges cannot raise it again.
 */
export function yieldToEngine(niceness = NICENESS): void {
  if (process.platform !== "linux") return;
  const nice = Math.min(LAST, getPriority() + niceness);
  for (const thread of readdirSync("/proc/self/task")) {
    try {
      setPriority(Number(thread), nice);
    } catch {
      // The thread has ended since the folder was read.
    }
  }
}
