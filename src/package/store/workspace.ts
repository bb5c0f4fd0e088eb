/**
 * A temporary folder for one build, container image or download. A build's folder is removed after the build. A
 * download's folder stays after a failure, so that the next pull can resume.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { tryLock } from "../../machine/files/lock.ts";
import { removeAbandoned, temporaryFolder } from "../../machine/files/temporary-folder.ts";

export interface Workspace extends Disposable {
  readonly folder: string;
  /** Removes the folder after success. The caller holds the store's lock. */
  finish(): void;
}

const buildPrefix = "build-";
const lockName = "lock";

/** Parent folders of the workspaces in a store. */
const parentsOf = (home: string) => ({ builds: join(home, ".tmp"), downloads: join(home, ".partial") });

/**
 * Opens a folder for a build, or for a download with the files of an earlier run. If another process uses the
 * download's folder, opens a folder for a build. The caller holds the store's lock.
 */
export function openWorkspace(home: string, download?: string): Workspace {
  const { builds, downloads } = parentsOf(home);
  for (const parent of [builds, downloads]) mkdirSync(parent, { recursive: true });
  const reopened = download === undefined ? undefined : reopen(join(downloads, download));
  if (reopened !== undefined) return reopened;
  const folder = temporaryFolder(builds, buildPrefix);
  const remove = () => folder[Symbol.dispose]();
  return { folder: folder.path, finish: remove, [Symbol.dispose]: remove };
}

function reopen(folder: string): Workspace | undefined {
  mkdirSync(folder, { recursive: true });
  const lock = tryLock(join(folder, lockName));
  if (lock === undefined) return undefined;
  return {
    folder,
    finish() {
      rmSync(folder, { recursive: true, force: true });
      lock.release();
    },
    [Symbol.dispose]: () => lock.release(),
  };
}

/**
 * Removes folders of dead builds, and downloads without a write for `maxAgeMs` that no process uses. The caller holds
 * the store's lock.
 */
export function sweepWorkspaces(home: string, maxAgeMs: number): void {
  const { builds, downloads } = parentsOf(home);
  if (existsSync(builds)) removeAbandoned(builds, buildPrefix);
  if (!existsSync(downloads)) return;
  // Skips files, which for example a file manager created.
  for (const entry of readdirSync(downloads, { withFileTypes: true }).filter((each) => each.isDirectory())) {
    const folder = join(downloads, entry.name);
    if (maxAgeMs > 0 && ageOf(folder) < maxAgeMs) continue;
    const isLocked = existsSync(join(folder, lockName));
    using lock = isLocked ? tryLock(join(folder, lockName)) : undefined;
    if (!isLocked || lock !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}

/** Milliseconds since the last write to a file in the folder; infinite for an empty folder. */
function ageOf(folder: string): number {
  const files = readdirSync(folder).filter((name) => name !== lockName);
  return Date.now() - Math.max(-Infinity, ...files.map((name) => statSync(join(folder, name)).mtimeMs));
}
