/** Version of the C library of this process. */
import { dlopen, FFIType } from "bun:ffi";

/** For example `2.36`; undefined on other systems or other C libraries. */
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
