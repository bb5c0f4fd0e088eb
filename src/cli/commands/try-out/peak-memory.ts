/** Measures a task's memory with Linux's counters; undefined when they are not available. */
import { readFileSync, writeFileSync } from "node:fs";

export interface Taken<T> {
  readonly result: T;
  /** Peak above the memory in use before the task. */
  readonly peakBytes: number | undefined;
}

export async function peakMemory<T>(task: () => Promise<T>): Promise<Taken<T>> {
  const before = forgetPeak();
  const result = await task();
  const peak = before === undefined ? undefined : statusBytes("VmHWM");
  return { result, peakBytes: before === undefined || peak === undefined ? undefined : Math.max(0, peak - before) };
}

/** @returns the memory resident now */
function forgetPeak(): number | undefined {
  try {
    // proc(5): writing 5 resets the peak to the current resident size.
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
