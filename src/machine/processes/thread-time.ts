/** Processor time of a thread, for limits that do not depend on the machine's other load. Linux only. */
import { readlinkSync } from "node:fs";
import { basename } from "node:path";
import { statFields } from "../../base/system-file.ts";

/** The kernel's clock tick in milliseconds, the unit of processor time. */
const TICK_MS = 10;

/** Id of the calling thread, for `threadTimeMs`; undefined outside Linux. */
export function thisThread(): string | undefined {
  return process.platform === "linux" ? basename(readlinkSync("/proc/thread-self")) : undefined;
}

/** Processor time of a thread of this process in milliseconds; undefined if unknown. */
export function threadTimeMs(thread: string | undefined): number | undefined {
  if (thread === undefined) return undefined;
  // Fields 14 and 15 of proc(5) are `utime` and `stime`.
  const [user, system] = statFields(`/proc/self/task/${thread}/stat`).slice(11, 13);
  return user === undefined ? undefined : (Number(user) + Number(system)) * TICK_MS;
}
