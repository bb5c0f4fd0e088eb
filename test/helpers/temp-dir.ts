/** A temporary folder that the end of a scope removes. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempDir extends AsyncDisposable {
  /** Absolute path of the folder. */
  readonly path: string;
  /** Joins a path inside the folder. */
  join(...parts: string[]): string;
}

/** Makes an empty folder. `await using dir = await tempDir()` removes it with its content at the end of the scope. */
export async function tempDir(): Promise<TempDir> {
  const path = await mkdtemp(join(tmpdir(), "sconce-test-"));
  return {
    path,
    join: (...parts) => join(path, ...parts),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 3 }),
  };
}
