/** Memory limit of this process: its container's limit (cgroup v1 or v2), else the memory of the machine. */
import { totalmem } from "node:os";
import { dirname, join } from "node:path";
import { systemText } from "../base/system-file.ts";

/** @param root root of the file system to read */
export function memoryLimit(root = "/", machineBytes = totalmem()): number {
  let least = machineBytes;
  for (const line of systemText(join(root, "proc/self/cgroup")).split("\n")) {
    const [, controllers = "", path = "/"] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === "") least = Math.min(least, leastOf(join(root, "sys/fs/cgroup"), path, "memory.max"));
    if (!controllers.split(",").includes("memory")) continue;
    least = Math.min(least, leastOf(join(root, "sys/fs/cgroup/memory"), path, "memory.limit_in_bytes"));
  }
  return least;
}

/** The least limit of a group and its parents. A container may see its own group as the root. */
function leastOf(mount: string, path: string, file: string): number {
  let least = Number.POSITIVE_INFINITY;
  for (let group = join("/", path); ; group = dirname(group)) {
    const text = systemText(join(mount, group, file)).trim();
    if (/^\d+$/.test(text)) least = Math.min(least, Number(text));
    if (group === "/") return least;
  }
}
