/** Processes of the machine: their children, roles and libraries. */
import { readFile } from "node:fs/promises";

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
