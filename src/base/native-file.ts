/** Gives native code paths of files that are embedded in an executable: their own paths work only inside Bun. */
import { dlopen, FFIType } from "bun:ffi";
import { closeSync, writeSync } from "node:fs";

export interface NativeFile extends AsyncDisposable {
  readonly path: string;
}

/** Bun's virtual path prefix for files embedded in the executable. */
const insidePrefix = "/$bunfs/";
const chunkBytes = 8 * 1024 * 1024;
/** The flag `MFD_CLOEXEC`: child processes do not inherit the file. */
const CLOSE_ON_EXEC = 1;

/** Gives a path that native code can open until the result is disposed. Nothing is written to disk. */
export async function openNativeFile(path: string): Promise<NativeFile> {
  if (!path.startsWith(insidePrefix)) return { path, async [Symbol.asyncDispose]() {} };
  // Executables exist for Linux only.
  return inMemory(path, createMemoryFile());
}

/** Creates an empty file in memory (`memfd_create`). @returns its file descriptor */
export function createMemoryFile(): number {
  const system = dlopen("libc.so.6", { memfd_create: { args: [FFIType.cstring, FFIType.u32], returns: FFIType.i32 } });
  const descriptor = system.symbols.memfd_create(Buffer.from("sconce\0"), CLOSE_ON_EXEC);
  system.close();
  if (descriptor < 0) throw new Error("the system creates no file in memory");
  return descriptor;
}

async function inMemory(path: string, descriptor: number): Promise<NativeFile> {
  const file: NativeFile = {
    path: `/proc/self/fd/${descriptor}`,
    async [Symbol.asyncDispose]() {
      closeSync(descriptor);
    },
  };
  try {
    const inside = Bun.file(path);
    // Copies in chunks, so that memory never holds the file twice.
    for (let begin = 0; begin < inside.size; begin += chunkBytes) {
      const bytes = await inside.slice(begin, begin + chunkBytes).bytes();
      for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done);
    }
    return file;
  } catch (error) {
    await file[Symbol.asyncDispose]();
    throw error;
  }
}
