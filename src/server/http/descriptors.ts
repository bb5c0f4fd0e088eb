/** How many files and connections this process may have open, and about how many it has. */
import { closeSync, openSync, readFileSync } from "node:fs";

/** `ulimit -n`; Infinity where the system does not say (Linux does). */
export function descriptorLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}

/** The lowest descriptor that is free: at least as many are open. Infinity where none is free. */
export function lowestFree(): number {
  try {
    const descriptor = openSync("/dev/null", "r");
    closeSync(descriptor);
    return descriptor;
  } catch {
    return Infinity;
  }
}
