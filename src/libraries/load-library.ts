/** Loads a native library for all that is loaded after it. */
import { dlopen, FFIType } from "bun:ffi";

const RTLD_NOW = 2;
const RTLD_GLOBAL = 0x100;

/**
 * By its path, so that it finds its own libraries where it lies; the addon then finds it by its name.
 * @returns why it cannot be loaded
 */
export function loadLibrary(path: string): string | undefined {
  const system = dlopen("libc.so.6", {
    dlopen: { args: [FFIType.cstring, FFIType.i32], returns: FFIType.ptr },
    dlerror: { args: [], returns: FFIType.cstring },
  });
  try {
    const handle = system.symbols.dlopen(Buffer.from(`${path}\0`), RTLD_NOW | RTLD_GLOBAL);
    return handle === null ? String(system.symbols.dlerror()) : undefined;
  } finally {
    system.close();
  }
}
