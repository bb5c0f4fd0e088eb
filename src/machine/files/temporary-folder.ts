/** Temporary folders that remove themselves. */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";

export interface TemporaryFolder extends Disposable {
  readonly path: string;
}

/**
 * Makes an empty folder. Its disposal, or the exit of this process, removes it with its content. After a kill the folder
 * remains.
 * @param prefix start of the folder's name, which ends with random letters
 */
export function temporaryFolder(parent: string, prefix: string): TemporaryFolder {
  const path = mkdtempSync(join(parent, prefix));
  const remove = () => rmSync(path, { recursive: true, force: true });
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
