/**
 * The processor that an AOTInductor package needs. The compiled code does not check for features, so a missing one would
 * crash the process.
 */
import { SconceError } from "../base/errors.ts";
import { type Processor, thisProcessor } from "./processor.ts";

export interface ProcessorNeeds {
  /** Architecture by Python's name, e.g. "x86_64"; empty if the package does not state it. */
  readonly machine: string;
  /** Features by their names in /proc/cpuinfo. */
  readonly features: readonly string[];
}

/** Features of the vector instruction sets that torch/_inductor/cpu_vec_isa.py names. */
const vectorIsas: ReadonlyMap<string, readonly string[]> = new Map([
  ["AVX2", ["avx2", "fma", "f16c"]],
  ["AVX512", ["avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"]],
  ["AVX512_VNNI", ["avx512_vnni"]],
  ["AMX_TILE", ["amx_tile", "amx_bf16", "amx_int8"]],
]);

/** Python's names of architectures on Windows and macOS. */
const machines: Readonly<Record<string, string>> = { AMD64: "x86_64", arm64: "aarch64" };

/** PyTorch's description of the machine that compiled a package. */
interface StatedNeeds {
  readonly machine: string;
  readonly device: string;
  /** Vector instruction sets, separated by spaces. */
  readonly isas: string;
}

export function processorNeeds({ machine, device, isas }: StatedNeeds): ProcessorNeeds {
  // A package for a GPU has no vector code: only plain C++ that calls the kernels.
  const features = device === "cpu" ? isas.split(/\s+/).flatMap((isa) => vectorIsas.get(isa) ?? []) : [];
  return { machine: machines[machine] ?? machine, features: [...new Set(features)].sort() };
}

/** @throws SconceError `weights_invalid`, with the missing features and a fix, if the processor cannot run the package */
export function requireProcessor({ machine, features }: ProcessorNeeds, processor: Processor = thisProcessor()): void {
  const fix = "compile it on a processor like this one, or serve weights that are not compiled";
  if (machine !== "" && processor.machine !== "" && machine !== processor.machine) {
    const both = `the package was compiled for ${machine}, this machine is ${processor.machine}`;
    throw new SconceError("weights_invalid", `${both}: ${fix}`);
  }
  const { flags } = processor;
  const missing = flags === undefined ? [] : features.filter((feature) => !flags.has(feature));
  if (missing.length === 0) return;
  throw new SconceError(
    "weights_invalid",
    `the package was compiled for a processor with ${missing.join(", ")}, which this one (${processor.name}) lacks: ${fix}`,
  );
}
