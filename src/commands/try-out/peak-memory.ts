/** How much memory a task takes, as Linux counts it for this process; undefined where it does not say. */
import { readFileSync, writeFileSync } from "node:fs";

export interface Taken<T> {
  readonly result: T;
  /** Beyond what this process had before, at the worst moment. */
  readonly peakBytes: number | undefined;
}

export async function peakMemory<T>(task: () => Promise<T>): Promise<Taken<T>> {
  const before = forgetPeak();
  const result = await task();
  const peak = before === undefined ? undefined : statusBytes("VmHWM");
  return { result, peakBytes: before === undefined || peak === undefined ? undefined : Math.max(0, peak - before) };
}

/** @returns what is resident now */
function forgetPeak(): number | undefined {
  try {
    // proc(5): 5 resets the peak to what is resident.
    writeFileSync("/proc/self/clear_refs", "5");
    return statusBytes("VmRSS");
  } catch {
    return undefined;
  }
}

function statusBytes(name: string): number | undefined {
  const kib = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(readFileSync("/proc/self/status", "latin1"))?.[1];
  return kib === undefined ? undefined : Number(kib) * 1024;
}
