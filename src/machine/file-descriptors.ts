/** The file descriptors of this process. */
import { closeSync, openSync, readFileSync } from "node:fs";

/** The limit of open file descriptors (`ulimit -n`); Infinity on systems without /proc. */
export function descriptorLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}

/** The lowest free file descriptor: an estimate of the number of open descriptors. Infinity if none is free. */
export function lowestFreeDescriptor(): number {
  try {
    const descriptor = openSync("/dev/null", "r");
    closeSync(descriptor);
    return descriptor;
  } catch {
    return Infinity;
  }
}
