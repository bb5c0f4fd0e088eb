/** What a thread has had of the processors, so that its limits are not those of a machine that others keep busy. Known on Linux alone. */
import { readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/** Of a clock tick, as the kernel tells them to programs. */
const TICK_MS = 10;

/** By what `threadTimeMs` knows the calling thread. */
export function thisThread(): string | undefined {
  return process.platform === "linux" ? basename(readlinkSync("/proc/thread-self")) : undefined;
}

/** The processor time that a thread of this process has had, in milliseconds; undefined where that is not known. */
export function threadTimeMs(thread: string | undefined): number | undefined {
  if (thread === undefined) return undefined;
  try {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, "utf8");
    // The name, in parentheses, may hold anything; `utime` and `stime` are the 12th and 13th after it.
    const [user, system] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(11, 13);
    return (Number(user) + Number(system)) * TICK_MS;
  } catch {
    return undefined;
  }
}
