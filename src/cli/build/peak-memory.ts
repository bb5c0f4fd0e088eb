/** Measures the peak memory of a task with Linux's counters. On other systems the figure is undefined. */
import { readFileSync, writeFileSync } from "node:fs";

export interface Taken<T> {
  readonly result: T;
  /** Peak of resident memory during the task, above the memory before it, in bytes. */
  readonly peakBytes: number | undefined;
}

export async function peakMemory<T>(task: () => Promise<T>): Promise<Taken<T>> {
  const before = forgetPeak();
  const result = await task();
  const peak = before === undefined ? undefined : statusBytes("VmHWM");
  return { result, peakBytes: before === undefined || peak === undefined ? undefined : Math.max(0, peak - before) };
}

/** Resets the peak. @returns the resident memory in bytes; undefined without Linux's counters */
function forgetPeak(): number | undefined {
  try {
    // Writing 5 sets the peak to the current resident size (see proc(5)).
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
