/** Processes of the machine: their children, roles and libraries. */
import { readFileSync } from "node:fs";

export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Checks a condition every 10 ms until it is true, for conditions without an event. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await Bun.sleep(10);
}

/** Ids of the child processes of a process; default: of this process. An ended process has none. */
export function children(pid = process.pid): number[] {
  return textOf(`/proc/${pid}/task/${pid}/children`).split(" ").filter(Boolean).map(Number);
}

/** Ids of a process and all its descendants. */
export function descendants(pid: number): number[] {
  return [pid, ...children(pid).flatMap(descendants)];
}

/** Ids of the server's child processes in this role. */
export function inRole(server: number, role: "engine" | "front"): number[] {
  return children(server).filter((pid) => textOf(`/proc/${pid}/cmdline`).includes(`[${role}]`));
}

/** Whether a process has loaded libtorch. */
export function hasLibtorch(pid: number): boolean {
  return textOf(`/proc/${pid}/maps`).includes("libtorch");
}

/** Text of a file; empty if its process has ended. */
export function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
