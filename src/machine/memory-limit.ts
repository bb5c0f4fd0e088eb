/**
 * The memory limit and the free memory of this process in bytes. A container (cgroup v1 or v2) may have less than the
 * machine.
 */
import { totalmem } from "node:os";
import { dirname, join } from "node:path";
import { systemText } from "../base/system-file.ts";

/**
 * The memory limit in bytes: the machine's memory, or the smallest limit of a control group if that is less.
 * @param root root of the file system, which tests replace
 */
export function memoryLimit(root = "/", machineBytes = totalmem()): number {
  const limits = memoryGroups(root).map(({ version, mount, path }) =>
    leastOf(mount, path, version === 2 ? "memory.max" : "memory.limit_in_bytes"),
  );
  return Math.min(machineBytes, ...limits);
}

/** Free memory in bytes: of the machine, or what the container's limit (cgroup v2) leaves if that is less. */
export function freeMemory(root = "/"): number {
  const [, available = "0"] = /^MemAvailable:\s+(\d+) kB$/m.exec(systemText(join(root, "proc/meminfo"))) ?? [];
  let free = 1024 * Number(available);
  for (const { version, mount, path } of memoryGroups(root)) {
    if (version === 1) continue;
    for (let group = join("/", path); ; group = dirname(group)) {
      const text = (file: string) => systemText(join(mount, group, file));
      const [limit, used] = [text("memory.max").trim(), text("memory.current").trim()];
      const [, cached = "0"] = /^inactive_file (\d+)$/m.exec(text("memory.stat")) ?? [];
      if (/^\d+$/.test(limit)) free = Math.min(free, Number(limit) - Number(used) + Number(cached));
      if (group === "/") break;
    }
  }
  return free;
}

/**
 * The control groups of this process that count memory. In a container, `path` may be the host's path, which does not
 * exist below `mount`.
 */
export function* memoryGroups(root = "/") {
  for (const line of systemText(join(root, "proc/self/cgroup")).split("\n")) {
    const [, controllers = "", path = "/"] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === "") yield { version: 2, mount: join(root, "sys/fs/cgroup"), path };
    if (controllers.split(",").includes("memory")) {
      yield { version: 1, mount: join(root, "sys/fs/cgroup/memory"), path };
    }
  }
}

/**
 * The smallest limit of a control group and its parents in bytes. In a container, `path` may not exist below `mount`;
 * then the root's limit counts.
 */
function leastOf(mount: string, path: string, file: string): number {
  let least = Number.POSITIVE_INFINITY;
  for (let group = join("/", path); ; group = dirname(group)) {
    const text = systemText(join(mount, group, file)).trim();
    if (/^\d+$/.test(text)) least = Math.min(least, Number(text));
    if (group === "/") return least;
  }
}
