/** What Linux says of processes. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** What a process holds. */
export interface Holdings {
  readonly descriptors: readonly string[];
  /** Of files and shared memory. */
  readonly maps: number;
  readonly residentBytes: number;
  readonly virtualBytes: number;
}

/** Ids of the processes with this variable in the environment that they were started with. */
export function processesWith(variable: string, value: string): number[] {
  const wanted = `${variable}=${value}`;
  return pids().filter((pid) => textOf(`/proc/${pid}/environ`).split("\0").includes(wanted));
}

/** Also those that have ended and whose end nobody has asked for. */
export function childrenOf(pid: number): number[] {
  return pids().filter((candidate) => parentOf(candidate) === pid);
}

/** Arguments, as `ps` shows them. */
export function commandLineOf(pid: number): readonly string[] {
  return textOf(`/proc/${pid}/cmdline`).split("\0");
}

/** Whether a process has ended, whether or not its parent has asked. */
export function hasEnded(pid: number): boolean {
  const state = afterName(pid)[0];
  return state === undefined || state === "Z" || state === "X";
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

function parentOf(pid: number): number {
  return Number(afterName(pid)[1]);
}

/** The fields of `stat` from the state on: the name before it may hold anything. */
function afterName(pid: number): string[] {
  const stat = textOf(`/proc/${pid}/stat`);
  const end = stat.lastIndexOf(") ");
  return end < 0 ? [] : stat.slice(end + 2).split(" ");
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "gone";
  }
}

/** Empty for a process that has gone meanwhile. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
