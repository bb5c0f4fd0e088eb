/** Processes of the machine: their children, roles and libraries. */
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { systemText } from "../../src/base/system-file.ts";
import { threadsOf } from "../../src/machine/processes/scheduling.ts";

/** Scheduling policies of Linux. */
export const SCHED_OTHER = 0;
export const SCHED_IDLE = 5;

/** Whether this process may raise its own priority, for example by CAP_SYS_NICE. Only then can it leave SCHED_IDLE. */
export const mayLeaveBackground =
  Bun.spawnSync(["sh", "-c", "renice -n -1 -p $$"], { stdout: "ignore", stderr: "ignore" }).exitCode === 0;

/** The scheduling policies of the threads of a running process. */
export function policies(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
    const stat = systemText(`/proc/${pid}/task/${thread}/stat`);
    // The policy is field 41. The fields after the name begin with the third.
    return stat === "" ? [] : [Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[41 - 3])];
  });
}

/** The time slices of the threads of a running process, in nanoseconds. Empty before Linux 6.12. */
export function slices(pid: number): number[] {
  return threadsOf(pid).flatMap((thread) => {
    const [, slice] = /^se\.slice\s*:\s*(\d+)$/m.exec(systemText(`/proc/${pid}/task/${thread}/sched`)) ?? [];
    return slice === undefined ? [] : [Number(slice)];
  });
}

/** Whether Linux lets threads choose their time slices. */
export const hasSlices = slices(process.pid).length > 0;

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
export async function children(pid = process.pid): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  return text.split(" ").filter(Boolean).map(Number);
}

/** Ids of a process and all its descendants. */
export async function descendants(pid: number): Promise<number[]> {
  const below = await Promise.all((await children(pid)).map(descendants));
  return [pid, ...below.flat()];
}

/** Ids of the server's child processes in this role. */
export async function inRole(server: number, role: "engine" | "front"): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await children(server)) {
    // A process may end after the list of children was read.
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (command.includes(`[${role}]`)) found.push(pid);
  }
  return found;
}

/** Whether a process has loaded libtorch. */
export async function hasLibtorch(pid: number): Promise<boolean> {
  return (await readFile(`/proc/${pid}/maps`, "utf8")).includes("libtorch");
}
