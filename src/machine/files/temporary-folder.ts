/** Temporary folders that remove themselves. Each new one removes the folders that killed processes have left. */
import { existsSync, lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { tryLock } from "./lock.ts";

export interface TemporaryFolder extends Disposable {
  readonly path: string;
}

/** File in a temporary folder. The process that uses the folder has its lock, which the kernel releases at its end. */
const lockName = "lock";
/** Age in milliseconds at which a folder without a lock counts as abandoned. */
const UNLOCKED_MS = 60_000;

/**
 * Makes a folder. Its disposal, or the exit of this process, removes it with its content. After a kill, the next folder
 * with this prefix removes it.
 * @param prefix start of the folder's name, which ends with random letters
 */
export function temporaryFolder(parent: string, prefix: string): TemporaryFolder {
  removeAbandoned(parent, prefix);
  const path = mkdtempSync(join(parent, prefix));
  const lock = tryLock(join(path, lockName));
  const remove = () => {
    lock?.release();
    rmSync(path, { recursive: true, force: true });
  };
  // `process.exit`, which a signal handler may call, skips the end of a scope. So the exit event removes the folder too.
  process.once("exit", remove);
  return {
    path,
    [Symbol.dispose]() {
      process.off("exit", remove);
      remove();
    },
  };
}

/** Removes the temporary folders of this user whose processes have ended. */
export function removeAbandoned(parent: string, prefix: string): void {
  for (const name of readdirSync(parent)) {
    const folder = join(parent, name);
    if (name.startsWith(prefix) && isAbandoned(folder)) rmSync(folder, { recursive: true, force: true });
  }
}

function isAbandoned(folder: string): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found?.isDirectory() !== true || found.uid !== process.getuid?.()) return false;
  const path = join(folder, lockName);
  if (!existsSync(path)) return Date.now() - found.mtimeMs > UNLOCKED_MS;
  const lock = tryLock(path);
  lock?.release();
  return lock !== undefined;
}
