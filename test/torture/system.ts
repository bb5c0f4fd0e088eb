/** Facts about processes, read from Linux's `/proc`. */
import { readdirSync, readlinkSync } from "node:fs";
import { textOf } from "../helpers/running.ts";

/** The resources that a process holds. */
export interface Holdings {
  readonly descriptors: readonly string[];
  /** Number of memory maps with a file or shared memory behind them. */
  readonly maps: number;
  readonly residentBytes: number;
  readonly virtualBytes: number;
}

/** Ids of all processes that were started with this environment variable. */
export function processesWith(variable: string, value: string): number[] {
  const wanted = `${variable}=${value}`;
  return pids().filter((pid) => textOf(`/proc/${pid}/environ`).split("\0").includes(wanted));
}

/** Whether a process has ended; true for a zombie. */
export function hasEnded(pid: number): boolean {
  const stat = textOf(`/proc/${pid}/stat`);
  // The state follows the process name, which may contain any characters.
  const state = stat[stat.lastIndexOf(") ") + 2];
  return stat === "" || state === "Z" || state === "X";
}

export function holdingsOf(pid: number): Holdings {
  const descriptors = namesIn(`/proc/${pid}/fd`).map((name) => linkOf(`/proc/${pid}/fd/${name}`));
  const named = textOf(`/proc/${pid}/maps`)
    .split("\n")
    .filter((line) => /\s\/\S/.test(line));
  const status = textOf(`/proc/${pid}/status`);
  const bytes = (name: string) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0);
  return { descriptors, maps: named.length, residentBytes: bytes("VmRSS"), virtualBytes: bytes("VmSize") };
}

export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function pids(): number[] {
  return namesIn("/proc").map(Number).filter(Number.isInteger);
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "gone";
  }
}
