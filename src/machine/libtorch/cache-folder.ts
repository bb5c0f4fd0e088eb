/**
 * The cache folder for native libraries, which executables unpack or `sconce` compiles: its location, and checks of
 * owners and permissions.
 */
import { existsSync, lstatSync, mkdirSync, realpathSync, statfsSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { formatBytes } from "../../base/bytes.ts";
import { codeOf, messageOf, SconceError } from "../../base/errors.ts";
import { temporaryFolder } from "../files/temporary-folder.ts";

/**
 * The folder `asked`, or by default the user's cache directory: `$XDG_CACHE_HOME/sconce` or `~/.cache/sconce`, on macOS
 * `~/Library/Caches/sconce`. Undefined for a user without a home: libraries must not be cached in a shared folder.
 */
export function cacheLocation(
  asked: string | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
): string | undefined {
  if (asked) return resolve(asked);
  // Ignores a relative path, as the XDG specification requires.
  if (env.XDG_CACHE_HOME && isAbsolute(env.XDG_CACHE_HOME)) return join(env.XDG_CACHE_HOME, "sconce");
  const home = env.HOME || homeOfUser();
  if (home === undefined) return undefined;
  return platform === "darwin" ? join(home, "Library", "Caches", "sconce") : join(home, ".cache", "sconce");
}

/**
 * The home folder in the system's user database. Undefined if it does not exist, and in a container without
 * /etc/passwd.
 */
function homeOfUser(): string | undefined {
  try {
    const home = homedir();
    return existsSync(home) ? home : undefined;
  } catch {
    return undefined;
  }
}

const fix = "name a folder for them with SCONCE_CACHE_DIR";

/**
 * Refuses a folder that other users can modify, because they could replace the libraries that this process loads.
 * @param folder the folder itself, not a symbolic link to it
 * @param options.maySticky accepts shared folders with the sticky bit, such as `/tmp`
 * @throws SconceError `cache_unusable` when another user, except root, owns the folder or can write to it
 */
export function requirePrivate(folder: string, { maySticky = false } = {}): void {
  const found = lstatSync(folder);
  const own = process.getuid?.();
  if (!found.isDirectory()) throw unusable(folder, "is not a folder");
  if (own === undefined) return;
  if (found.uid !== own && found.uid !== 0) throw unusable(folder, "belongs to another user");
  const isShared = (found.mode & 0o022) !== 0;
  if (isShared && !(maySticky && (found.mode & 0o1000) !== 0)) throw unusable(folder, "can be written by other users");
}

/**
 * Creates the folder if needed. Checks that no other user can replace the folder or its parents.
 * @returns the path without symbolic links; callers use only this path
 * @throws SconceError `cache_unusable`
 */
export function secureFolder(folder: string): string {
  try {
    // `mkdir` may fail on a read-only file system, where the folder may exist already.
    if (!existsSync(folder)) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = realpathSync(folder);
    // Checks from the root down: if other users cannot modify a folder, the name of the next folder can be trusted.
    for (let end = 0; end >= 0; end = path.indexOf("/", end + 1)) {
      requirePrivate(path.slice(0, end) || "/", { maySticky: true });
    }
    requirePrivate(path, { maySticky: true });
    return path;
  } catch (error) {
    throw cacheFault(error, folder);
  }
}

/**
 * Checks that the folder has enough space for libraries, and that libraries can be loaded from it.
 * @throws SconceError `cache_unusable` when the file system is mounted noexec, or has too little space
 */
export function requireSpace(folder: string, bytes: number): void {
  if (isNoexec(folder))
    throw unusable(folder, "lies on a file system that is mounted noexec: libraries cannot be loaded from it");
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < bytes) {
    throw unusable(folder, `has ${formatBytes(bavail * bsize)} left, but ${formatBytes(bytes)} are needed`);
  }
}

/** Turns an error of file operations in the folder into a message with a fix. */
export function cacheFault(error: unknown, folder: string): SconceError {
  if (error instanceof SconceError) return error;
  return unusable(folder, reasons[codeOf(error)] ?? `cannot be used (${messageOf(error)})`, error);
}

const reasons: Readonly<Record<string, string>> = {
  EROFS: "is read-only",
  EACCES: "cannot be written by this user",
  EPERM: "cannot be written by this user",
  ENOSPC: "has no space left",
  EDQUOT: "has no space left for this user",
  ENOTDIR: "is not a folder",
  EEXIST: "is not a folder",
  ENOENT: "cannot be made",
  EBUSY: "is still being written by another process; try again when it has ended, or",
};

function unusable(folder: string, why: string, cause?: unknown): SconceError {
  return new SconceError("cache_unusable", `libraries cannot be kept: ${folder} ${why}; ${fix}`, { cause });
}

/** Whether the folder is on a file system mounted noexec, where no program starts. */
function isNoexec(folder: string): boolean {
  using probe = temporaryFolder(folder, ".unpacking-");
  const script = join(probe.path, "probe");
  writeFileSync(script, "#!/bin/sh\n", { mode: 0o700 });
  try {
    Bun.spawnSync([script]);
    return false;
  } catch (error) {
    // Without a shell, the error is ENOENT.
    return codeOf(error) === "EACCES";
  }
}
