/** Computes the platform tag of a wheel, which names the oldest systems that its binaries run on (PEP 600). */
import { type Architecture, architectures } from "../../src/base/platform-package.ts";
import { toolPrefix } from "./cross.ts";

/**
 * Pairs of versions: libstdc++ 3.4.N, and the glibc 2.N of the first systems that have it. From auditwheel's policies.
 */
const glibcOf: readonly (readonly [number, number])[] = [
  [24, 28],
  [28, 31],
  [29, 34],
  [30, 35],
  [32, 38],
  [33, 39],
];

/** The tag for binaries. @returns e.g. `manylinux_2_35_x86_64` */
export async function wheelPlatform(binaries: readonly string[], arch: Architecture): Promise<string> {
  const versions = (
    await Promise.all(binaries.map((path) => Bun.$`${toolPrefix(arch)}objdump -p ${path}`.text()))
  ).join("\n");
  const newest = (pattern: RegExp) => Math.max(0, ...[...versions.matchAll(pattern)].map(([, minor]) => Number(minor)));
  const glibc = newest(/\bGLIBC_2\.(\d+)/g);
  const cpp = newest(/\bGLIBCXX_3\.4\.(\d+)/g);
  const known = glibcOf.find(([of]) => of >= cpp);
  if (known === undefined) throw new Error(`no policy is known for GLIBCXX_3.4.${cpp}`);
  return `manylinux_2_${Math.max(glibc, known[1])}_${architectures[arch]}`;
}
