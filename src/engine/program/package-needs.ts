/**
 * The processor that an AOTInductor package needs. The compiled code does not check for features, so a missing one would
 * crash the process.
 */
import { SconceError } from "../../base/errors.ts";
import { isKnownFeature, missingFeatures, type Processor, thisProcessor } from "../../machine/processor.ts";
import type { Archive } from "./archive.ts";

export interface PackageNeeds {
  /** Architecture by Python's name, e.g. "x86_64"; empty if the package does not state it. */
  readonly machine: string;
  /** Features by the names of GCC's -m flags. */
  readonly features: ReadonlySet<string>;
}

/** Features of the vector instruction sets that torch/_inductor/cpu_vec_isa.py names. */
const vectorIsas: Readonly<Record<string, string>> = {
  AVX2: "avx2 fma f16c",
  AVX512: "avx512f avx512dq avx512vl avx512bw fma",
  AVX512_VNNI: "avx512vnni",
  AMX_TILE: "amx-tile amx-bf16 amx-int8",
};

const level2 = "sse3 ssse3 sse4.1 sse4.2 popcnt";
const level3 = `${level2} avx avx2 bmi bmi2 f16c fma lzcnt movbe`;
/** Features of GCC's x86-64 -march levels. */
const levels: Readonly<Record<string, string>> = {
  "x86-64-v2": level2,
  "x86-64-v3": level3,
  "x86-64-v4": `${level3} avx512f avx512bw avx512cd avx512dq avx512vl`,
};

/** Python's names of architectures on Windows and macOS. */
const machines: Readonly<Record<string, string>> = { AMD64: "x86_64", arm64: "aarch64" };

/** Beginning of the compiler flags that GCC records for each compiled file, and most bytes of them. */
const PRODUCER = "GNU C";
const MAX_PRODUCER_BYTES = 8192;

/** PyTorch's description of the machine that compiled a package. */
interface StatedNeeds {
  readonly machine: string;
  readonly device: string;
  /** Vector instruction sets, separated by spaces. */
  readonly isas: string;
}

/**
 * Reads the needs of a package from its metadata, and from the compiler flags that GCC records in its libraries. Runs
 * no code of the package.
 */
export function packageNeeds(archive: Archive | undefined, { machine, device, isas }: StatedNeeds): PackageNeeds {
  const features = new Set<string>();
  // A package for a GPU has no vector code: only plain C++ that calls the kernels.
  if (device === "cpu") for (const isa of isas.split(/\s+/)) add(features, vectorIsas, isa);
  archive?.scan(/\.so$/, MAX_PRODUCER_BYTES, (piece, isLast) => {
    for (let at = piece.indexOf(PRODUCER); at >= 0; at = piece.indexOf(PRODUCER, at + 1)) {
      const end = piece.indexOf(0, at);
      // The next piece begins with the flags that may be cut off here.
      if (end < 0 && !isLast) break;
      addFlags(features, piece.toString("latin1", at, Math.min(end < 0 ? piece.length : end, at + MAX_PRODUCER_BYTES)));
    }
  });
  return { machine: machines[machine] ?? machine, features };
}

/** @throws SconceError `weights_invalid`, with the missing features and a fix, if the processor cannot run the package */
export function requireProcessor({ machine, features }: PackageNeeds, processor: Processor = thisProcessor()): void {
  const fix = "compile it on a processor like this one, or serve weights that are not compiled";
  if (machine !== "" && processor.machine !== "" && machine !== processor.machine) {
    const both = `the package was compiled for ${machine}, this machine is ${processor.machine}`;
    throw new SconceError("weights_invalid", `${both}: ${fix}`);
  }
  const missing = missingFeatures(features, processor);
  if (missing.length === 0) return;
  throw new SconceError(
    "weights_invalid",
    `the package was compiled for a processor with ${named(missing)}, which this one (${processor.name}) lacks: ${fix}`,
  );
}

function add(features: Set<string>, known: Readonly<Record<string, string>>, name: string): void {
  const found = Object.hasOwn(known, name) ? known[name] : undefined;
  for (const feature of found?.split(" ") ?? []) features.add(feature);
}

/**
 * Reads features from compiler flags such as "GNU C++20 12.2.0 -march=x86-64-v3 -mavx2 -O3". Skips features that
 * cannot be checked, and AMX, which compilers use only on request.
 */
function addFlags(features: Set<string>, producer: string): void {
  for (const flag of producer.split(/\s+/)) {
    add(features, levels, /^-march=(.*)/.exec(flag)?.[1] ?? "");
    const feature = /^-m(.*)/.exec(flag)?.[1] ?? "";
    if (!feature.startsWith("amx") && isKnownFeature(feature)) features.add(feature);
  }
}

/** Names of features for messages, such as "AVX2 and FMA". A family whose base is missing has one name. */
function named(missing: readonly string[]): string {
  const families = [
    { base: "amx-tile", prefix: "amx-", name: "AMX" },
    { base: "avx512f", prefix: "avx512", name: "AVX512" },
  ].filter(({ base }) => missing.includes(base));
  const others = missing.filter((feature) => !families.some(({ prefix }) => feature.startsWith(prefix))).sort();
  const names = [...families.map(({ name }) => name), ...others.map((feature) => feature.toUpperCase())];
  return new Intl.ListFormat("en-GB").format(names);
}
