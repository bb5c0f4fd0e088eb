/** Features of this machine's processor, by the names of GCC's -m flags. Compiled code uses them without a check. */
import { readFileSync } from "node:fs";

/**
 * Features of x86 with another name in /proc/cpuinfo. Linux omits features that its version does not know, or that
 * it has not enabled. Linux never lists avxifma, avxvnniint8, avxneconvert, avxvnniint16 and amx-fp16, so sconce cannot
 * check these.
 */
const renamed: Readonly<Record<string, string>> = {
  sse3: "pni",
  "sse4.1": "sse4_1",
  "sse4.2": "sse4_2",
  bmi: "bmi1",
  lzcnt: "abm",
  avx512vbmi2: "avx512_vbmi2",
  avx512vnni: "avx512_vnni",
  avx512bitalg: "avx512_bitalg",
  avx512vpopcntdq: "avx512_vpopcntdq",
  avx5124vnniw: "avx512_4vnniw",
  avx5124fmaps: "avx512_4fmaps",
  avx512fp16: "avx512_fp16",
  avx512bf16: "avx512_bf16",
  avxvnni: "avx_vnni",
  "amx-tile": "amx_tile",
  "amx-bf16": "amx_bf16",
  "amx-int8": "amx_int8",
};
const equal = new Set(
  `ssse3 fma movbe popcnt avx f16c avx2 bmi2 gfni avx512f avx512dq avx512ifma avx512er avx512cd avx512bw avx512vl
  avx512vbmi`.split(/\s+/),
);

export interface Processor {
  /** Architecture by Python's name: "x86_64" or "aarch64"; empty for any other. */
  readonly machine: string;
  /** Name for messages; "processor" if it states none. */
  readonly name: string;
  /** Features by their names in /proc/cpuinfo; undefined if the system does not tell. */
  readonly flags: ReadonlySet<string> | undefined;
}

/** Whether `missingFeatures` can find this feature. */
export function isKnownFeature(feature: string): boolean {
  return equal.has(feature) || Object.hasOwn(renamed, feature);
}

export function thisProcessor(): Processor {
  const machine = { x64: "x86_64", arm64: "aarch64" }[process.arch as string] ?? "";
  const text = cpuinfo();
  const flags = /^flags\s*:(.*)$/m.exec(text)?.[1]?.trim().split(/\s+/);
  const name = /^model name\s*:(.*)$/m.exec(text)?.[1]?.trim() || "processor";
  return { machine, name, flags: flags && new Set(flags) };
}

/** The wanted features that the processor lacks, or that its system has not enabled. Skips unknown features. */
export function missingFeatures(wanted: ReadonlySet<string>, { flags }: Processor): string[] {
  if (flags === undefined) return [];
  return [...wanted].filter((feature) => isKnownFeature(feature) && !flags.has(renamed[feature] ?? feature));
}

function cpuinfo(): string {
  try {
    return readFileSync("/proc/cpuinfo", "utf8");
  } catch {
    return "";
  }
}
