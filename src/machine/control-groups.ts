/**
 * The limits of memory and cores of this process. A container (cgroup v1 or v2) may have less than the machine, and
 * each parent of its control group may have a lower limit.
 */
import { availableParallelism, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { systemText } from "../base/system-file.ts";

/**
 * The memory limit in bytes: the machine's memory, or the smallest limit of a control group if that is less.
 * @param root root of the file system, which tests replace
 */
export function memoryLimit(root = "/", machineBytes = totalmem()): number {
  const limits = [...memoryGroups(root)].map(({ version, mount, path }) =>
    leastOf(mount, path, version === 2 ? "memory.max" : "memory.limit_in_bytes"),
  );
  return Math.min(machineBytes, ...limits);
}

/**
 * Count of cores that this process can keep busy, at least 1. A processor quota of a control group limits the cores of
 * the machine. A part of a core counts as one.
 * @param root root of the file system, which tests replace
 */
export function availableCores(root = "/", machineCores = availableParallelism()): number {
  const quotas = [...groupsOf("cpu", root)].flatMap(({ version, mount, path }) =>
    parentsOf(path).map((group) => quotaOf(join(mount, group), version)),
  );
  return Math.max(1, Math.min(machineCores, ...quotas.map(Math.ceil)));
}

/** Cores that a control group may use, a fraction; Infinity without a limit. */
function quotaOf(group: string, version: 1 | 2): number {
  const text = (file: string) => systemText(join(group, file)).trim();
  const [quota = "", period = ""] =
    version === 2 ? text("cpu.max").split(" ") : [text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")];
  const cores = Number(quota) / Number(period);
  return /^\d+$/.test(quota) && cores > 0 ? cores : Number.POSITIVE_INFINITY;
}

/** Free memory in bytes: of the machine, or what the container's limit (cgroup v2) leaves if that is less. */
export function freeMemory(root = "/"): number {
  const [, available = "0"] = /^MemAvailable:\s+(\d+) kB$/m.exec(systemText(join(root, "proc/meminfo"))) ?? [];
  let free = 1024 * Number(available);
  for (const { version, mount, path } of memoryGroups(root)) {
    if (version === 1) continue;
    for (const group of parentsOf(path)) {
      const text = (file: string) => systemText(join(mount, group, file));
      const [limit, used] = [text("memory.max").trim(), text("memory.current").trim()];
      const [, cached = "0"] = /^inactive_file (\d+)$/m.exec(text("memory.stat")) ?? [];
      if (/^\d+$/.test(limit)) free = Math.min(free, Number(limit) - Number(used) + Number(cached));
    }
  }
  return free;
}

/** The control groups of this process that count memory. */
export function memoryGroups(root = "/"): Generator<ControlGroup> {
  return groupsOf("memory", root);
}

interface ControlGroup {
  readonly version: 1 | 2;
  readonly mount: string;
  /** In a container, the path may be the host's path, which does not exist below `mount`. */
  readonly path: string;
}

function* groupsOf(controller: "memory" | "cpu", root: string): Generator<ControlGroup> {
  for (const line of systemText(join(root, "proc/self/cgroup")).split("\n")) {
    const [, controllers, path = "/"] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === "") yield { version: 2, mount: join(root, "sys/fs/cgroup"), path };
    if (controllers?.split(",").includes(controller)) {
      yield { version: 1, mount: join(root, "sys/fs/cgroup", controller), path };
    }
  }
}

/** A control group and its parents, up to the root. */
function parentsOf(path: string): string[] {
  const group = join("/", path);
  return group === "/" ? [group] : [group, ...parentsOf(dirname(group))];
}

/**
 * The smallest limit of a control group and its parents in bytes. In a container, `path` may not exist below `mount`;
 * then the root's limit counts.
 */
function leastOf(mount: string, path: string, file: string): number {
  const limits = parentsOf(path).map((group) => systemText(join(mount, group, file)).trim());
  return Math.min(Number.POSITIVE_INFINITY, ...limits.flatMap((text) => (/^\d+$/.test(text) ? Number(text) : [])));
}
