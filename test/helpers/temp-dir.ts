/** A folder that lives as long as the scope that made it. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempDir extends AsyncDisposable {
  /** Absolute path of the folder. */
  readonly path: string;
  /** The absolute path of something inside it. */
  join(...parts: string[]): string;
}

/** A new empty folder: `await using dir = await tempDir()` removes it, with all it holds, when the scope ends. */
export async function tempDir(): Promise<TempDir> {
  const path = await mkdtemp(join(tmpdir(), "sconce-test-"));
  return {
    path,
    join: (...parts) => join(path, ...parts),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 3 }),
  };
}
