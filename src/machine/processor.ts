/** The architecture and the features of this machine's processor. */
import { architectures, isArchitecture } from "../base/platform-package.ts";
import { systemText } from "../base/system-file.ts";

export interface Processor {
  /** Architecture by Python's name: "x86_64" or "aarch64"; empty for any other. */
  readonly machine: string;
  /** Name for messages; "processor" if it states none. */
  readonly name: string;
  /** Features by their names in /proc/cpuinfo; undefined if the system does not tell. */
  readonly flags: ReadonlySet<string> | undefined;
}

export function thisProcessor(): Processor {
  const machine = isArchitecture(process.arch) ? architectures[process.arch] : "";
  const text = systemText("/proc/cpuinfo");
  const flags = /^flags\s*:(.*)$/m.exec(text)?.[1]?.trim().split(/\s+/);
  const name = /^model name\s*:(.*)$/m.exec(text)?.[1]?.trim() || "processor";
  return { machine, name, flags: flags && new Set(flags) };
}
