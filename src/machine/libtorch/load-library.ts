/** Loads a native library globally, so that later libraries can use its symbols. */
import { dlopen, FFIType } from "bun:ffi";

const RTLD_NOW = 2;
const RTLD_GLOBAL = 0x100;

/**
 * Loads by path, so that the library finds its neighbours. The addon then finds it by name.
 * @returns the reason if it cannot be loaded
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
