/** Priority of a process, which matters when busy threads outnumber the cores. */
import { readdirSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

/** Added to `nice`. A thread then gets about a thirtieth of the time of a thread with the default. */
const NICENESS = 15;
const LAST = 19;

/**
 * Lowers the priority of this process on Linux, for work that may wait. Each thread has a priority; new threads and
 * child processes inherit it. Users without privileges cannot raise it again.
 */
export function lowerPriority(): void {
  if (process.platform !== "linux") return;
  const nice = Math.min(LAST, getPriority() + NICENESS);
  for (const thread of readdirSync("/proc/self/task")) {
    try {
      setPriority(Number(thread), nice);
    } catch {
      // The thread has ended since the folder was read.
    }
  }
}
