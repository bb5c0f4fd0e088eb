/** Processor time of a thread, for limits that do not depend on the machine's other load. Linux only. */
import { readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/** The kernel's clock tick in milliseconds, the unit of processor time. */
const TICK_MS = 10;

/** Id of the calling thread, for `threadTimeMs`; undefined outside Linux. */
export function thisThread(): string | undefined {
  return process.platform === "linux" ? basename(readlinkSync("/proc/thread-self")) : undefined;
}

/** Processor time of a thread of this process in milliseconds; undefined if unknown. */
export function threadTimeMs(thread: string | undefined): number | undefined {
  if (thread === undefined) return undefined;
  try {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, "utf8");
    // The name in parentheses may contain any characters. `utime` and `stime` are the 12th and 13th fields after the
    // name.
    const [user, system] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(11, 13);
    return (Number(user) + Number(system)) * TICK_MS;
  } catch {
    return undefined;
  }
}
