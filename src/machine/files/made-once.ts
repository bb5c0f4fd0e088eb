/** Makes files and folders that exist only when they are complete. */
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { codeOf } from "../../base/errors.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/**
 * Makes a file or folder under a temporary name and renames it when it is complete. Does nothing if `path` exists. If
 * several processes make a folder at once, the first result stays; of a file, the last.
 * @param make writes to the temporary path, which does not exist yet
 * @param prefix start of the name of the temporary folder beside `path`
 * @returns `path`
 */
export async function madeOnce(
  path: string,
  make: (temporary: string) => Promise<void>,
  prefix = ".unfinished-",
): Promise<string> {
  if (existsSync(path)) return path;
  mkdirSync(dirname(path), { recursive: true });
  using folder = temporaryFolder(dirname(path), prefix);
  const temporary = join(folder.path, basename(path));
  await make(temporary);
  renameInto(temporary, path);
  return path;
}

function renameInto(temporary: string, path: string): void {
  try {
    renameSync(temporary, path);
  } catch (error) {
    // Another process finished the folder first, so its result stays.
    if (!["ENOTEMPTY", "EEXIST"].includes(codeOf(error))) throw error;
  }
}
