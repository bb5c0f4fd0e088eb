/** Finds the libraries that a file needs, by asking the dynamic linker. */
import { basename } from "node:path";
import { messageOf, SconceError } from "../../base/errors.ts";
import { thisArchitecture } from "../../base/platform-package.ts";

/** The path of glibc's loader, fixed by the platform ABI. */
export const loaders = { x64: "/lib64/ld-linux-x86-64.so.2", arm64: "/lib/ld-linux-aarch64.so.1" } as const;

export interface Linked {
  /** The library's soname. */
  readonly name: string;
  /** Path of the library; undefined when the linker does not find it. */
  readonly path: string | undefined;
  readonly isLoader: boolean;
}

/**
 * All libraries that a file needs, directly or indirectly. Like `ldd`, parses the loader's output: `NAME => PATH
 * (0x…)`, `NAME => not found`, or for the loader `PATH (0x…)`.
 * @param folder searched before the system's folders
 * @throws SconceError `native_unavailable` when the loader fails
 */
export async function linkedTo(file: string, folder = ""): Promise<Linked[]> {
  // Removes the shell's LD_PRELOAD, which would add libraries that other machines do not have.
  const { LD_PRELOAD: _, ...env } = process.env;
  const loader = loaders[thisArchitecture()];
  let text: string;
  try {
    const child = Bun.spawn([loader, file], {
      env: { ...env, LD_TRACE_LOADED_OBJECTS: "1", LD_LIBRARY_PATH: folder },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [output, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    if (code !== 0) throw new Error(errors.trim() || `it ended with ${code}`);
    text = output;
  } catch (cause) {
    throw new SconceError(
      "native_unavailable",
      `${loader} can't tell which libraries ${file} needs: ${messageOf(cause)}`,
      {
        cause,
      },
    );
  }
  return text.split("\n").flatMap((line): Linked[] => {
    const [, name = "", path = ""] = /^\s*(\S+) => (\/.+) \(0x[0-9a-f]+\)$/.exec(line) ?? [];
    if (name !== "") return [{ name, path, isLoader: false }];
    const missing = /^\s*(\S+) => not found/.exec(line)?.[1];
    if (missing !== undefined) return [{ name: missing, path: undefined, isLoader: false }];
    const itself = /^\s*(\/\S+) \(0x[0-9a-f]+\)$/.exec(line)?.[1];
    return itself === undefined ? [] : [{ name: basename(itself), path: itself, isLoader: true }];
  });
}
