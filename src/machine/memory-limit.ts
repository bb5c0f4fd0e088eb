/** How much memory this process may have: the machine's, or less where its container (cgroup v1 or v2) says so. */
import { totalmem } from "node:os";
import { dirname, join } from "node:path";
import { systemText } from "../base/system-file.ts";

/** @param root of the file system that is asked */
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

/** Of a group and of those that it is part of; a container may see its own group as the first one. */
function leastOf(mount: string, path: string, file: string): number {
  let least = Number.POSITIVE_INFINITY;
  for (let group = join("/", path); ; group = dirname(group)) {
    const text = systemText(join(mount, group, file)).trim();
    if (/^\d+$/.test(text)) least = Math.min(least, Number(text));
    if (group === "/") return least;
  }
}
