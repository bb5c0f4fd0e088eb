/** Whether processes are there, asked of the system. */
import { readFile } from "node:fs/promises";

export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Awaits a condition that nothing tells of. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await Bun.sleep(10);
}

/** Ids of the children of this process. */
export async function children(): Promise<number[]> {
  const text = await readFile(`/proc/self/task/${process.pid}/children`, "utf8");
  return text.split(" ").filter(Boolean).map(Number);
}
