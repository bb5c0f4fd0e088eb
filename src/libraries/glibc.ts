/** The C library that this process runs on. */
import { dlopen, FFIType } from "bun:ffi";

/** `2.36`; undefined on other systems, and with other C libraries. */
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
