/** CPU time, memory and open files of the server's processes, read from /proc. */
import { readdirSync, readFileSync } from "node:fs";
import type { Family } from "../../base/metric-family.ts";
import { statFields } from "../../base/system-file.ts";

/** Clock ticks in `/proc/PID/stat` per second: 100 on every architecture. */
const TICKS_PER_SECOND = 100;

interface Usage {
  readonly cpuSeconds: number;
  readonly residentBytes: number;
  readonly virtualBytes: number;
  readonly startSeconds: number;
  readonly openFiles: number;
}

/**
 * Metrics of CPU time, memory and files.
 * @param processes process ids by name; ended and unreadable processes are skipped
 */
export function processFamilies(processes: Readonly<Record<string, number>>): Family[] {
  const usages = Object.entries(processes).flatMap(([process, pid]) => {
    const usage = usageOf(pid);
    return usage === undefined ? [] : [[process, usage] as const];
  });
  const family = (name: string, help: string, type: "counter" | "gauge", key: keyof Usage): Family => ({
    name,
    help,
    type,
    aggregator: "first",
    values: usages.map(([process, usage]) => ({ labels: { process }, value: usage[key] })),
  });
  return [
    family("process_cpu_seconds_total", "CPU time, of user and system.", "counter", "cpuSeconds"),
    family("process_resident_memory_bytes", "Resident memory.", "gauge", "residentBytes"),
    family("process_virtual_memory_bytes", "Virtual memory.", "gauge", "virtualBytes"),
    family("process_start_time_seconds", "When the process was started, since 1970.", "gauge", "startSeconds"),
    family("process_open_fds", "Open file descriptors.", "gauge", "openFiles"),
  ];
}

function usageOf(pid: number): Usage | undefined {
  try {
    const fields = statFields(`/proc/${pid}/stat`);
    /** A field by its number in proc(5). */
    const field = (number: number) => Number(fields[number - 3]);
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const bytes = (name: string) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1] ?? 0);
    const booted = /^btime (\d+)$/m.exec(readFileSync("/proc/stat", "latin1"));
    return {
      cpuSeconds: (field(14) + field(15)) / TICKS_PER_SECOND,
      virtualBytes: bytes("VmSize"),
      residentBytes: bytes("VmRSS"),
      startSeconds: Number(booted?.[1] ?? 0) + field(22) / TICKS_PER_SECOND,
      openFiles: readdirSync(`/proc/${pid}/fd`).length,
    };
  } catch {
    return undefined;
  }
}
