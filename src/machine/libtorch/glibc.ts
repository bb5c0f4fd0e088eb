/** Reads the version of the C library. */
import { dlopen, FFIType } from "bun:ffi";

/** The version of glibc, for example `2.36`; undefined with another system or C library. */
export function glibcVersion(): string | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const libc = dlopen("libc.so.6", { gnu_get_libc_version: { args: [], returns: FFIType.cstring } });
    const version = libc.symbols.gnu_get_libc_version();
    libc.close();
    return String(version);
  } catch {
    return undefined;
  }
}
