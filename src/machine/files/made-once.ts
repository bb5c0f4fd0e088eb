/** Makes files and folders that exist only when they are complete. */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { codeOf } from "../../base/errors.ts";

/**
 * Makes a file or folder under a temporary name and renames it when it is complete. If several processes make it at
 * once, the first result stays.
 * @param make writes to the temporary path, which does not exist yet
 * @param prefix start of the name of the temporary folder beside `path`; after a kill this folder remains
 * @returns `path`
 */
export async function madeOnce(
  path: string,
  make: (temporary: string) => Promise<void>,
  prefix = ".unfinished-",
): Promise<string> {
  if (existsSync(path)) return path;
  mkdirSync(dirname(path), { recursive: true });
  const folder = mkdtempSync(join(dirname(path), prefix));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  // `process.exit`, which a signal handler may call, skips `finally`. So the exit event removes the folder too.
  process.once("exit", remove);
  try {
    const temporary = join(folder, basename(path));
    await make(temporary);
    renameInto(temporary, path);
    return path;
  } finally {
    process.off("exit", remove);
    remove();
  }
}

function renameInto(temporary: string, path: string): void {
  try {
    renameSync(temporary, path);
  } catch (error) {
    // Another process finished the folder first, so its result stays.
    if (!["ENOTEMPTY", "EEXIST"].includes(codeOf(error))) throw error;
  }
}
