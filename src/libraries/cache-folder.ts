/** The folder into which an executable unpacks its libraries: where it is, whose it is, and why it may be of no use. */
import { existsSync, lstatSync, mkdirSync, readFileSync, realpathSync, statfsSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { formatBytes } from "../bytes.ts";
import { messageOf, SconceError } from "../errors.ts";

/**
 * What was asked for, else the user's cache directory: `$XDG_CACHE_HOME/sconce` or `~/.cache/sconce`, on macOS `~/Library/Caches/sconce`;
 * undefined for a user without a home: what all share is no place for code that is kept.
 */
export function cacheLocation(
  asked: string | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
): string | undefined {
  if (asked) return resolve(asked);
  // The XDG specification has a relative path ignored.
  if (env.XDG_CACHE_HOME && isAbsolute(env.XDG_CACHE_HOME)) return join(env.XDG_CACHE_HOME, "sconce");
  const home = env.HOME || homeOfUser();
  if (home === undefined) return undefined;
  return platform === "darwin" ? join(home, "Library", "Caches", "sconce") : join(home, ".cache", "sconce");
}

/** As the system knows it, which it does not in a container without /etc/passwd. */
function homeOfUser(): string | undefined {
  try {
    const home = homedir();
    return existsSync(home) ? home : undefined;
  } catch {
    return undefined;
  }
}

const fix = "name a folder for them with SCONCE_CACHE_DIR, or --cache-dir of an executable";

/**
 * Whoever can write into the folder, or put another one into its place, decides what this process loads.
 * @param folder a folder itself and no link to one
 * @throws SconceError `cache_unusable` when it is another user's, or others may write into it; other than into those in which each
 * user can only remove his own (`/tmp`)
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
 * The folder, made if it is not there, by a path without links that stays the same folder: no other user can put another one into the
 * place of it, or of one above it. Only that path may be used from then on.
 *
 * @throws SconceError `cache_unusable`
 */
export function secureFolder(folder: string): string {
  try {
    // Where it lies on a read-only file system, it may be there all the same.
    if (!existsSync(folder)) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = realpathSync(folder);
    // From the root down: once a folder is found to be safe, so is the name of the next.
    for (let end = 0; end >= 0; end = path.indexOf("/", end + 1)) {
      requirePrivate(path.slice(0, end) || "/", { maySticky: true });
    }
    requirePrivate(path, { maySticky: true });
    return path;
  } catch (error) {
    throw cacheFault(error, folder);
  }
}

/** @throws SconceError `cache_unusable` when programs may not be loaded from the folder, or it has too little room */
export function requireRoom(folder: string, bytes: number): void {
  if (isNoexec(folder))
    throw unusable(folder, "lies on a file system that is mounted noexec: libraries cannot be loaded from it");
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < bytes) {
    throw unusable(folder, `has ${formatBytes(bavail * bsize)} left where ${formatBytes(bytes)} are needed`);
  }
}

/** What went wrong in the folder, in words with a way out. */
export function cacheFault(error: unknown, folder: string): SconceError {
  if (error instanceof SconceError) return error;
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return unusable(folder, reasons[code] ?? `cannot be used (${messageOf(error)})`, error);
}

const reasons: Readonly<Record<string, string>> = {
  EROFS: "is read-only",
  EACCES: "cannot be written by this user",
  EPERM: "cannot be written by this user",
  ENOSPC: "has no room left",
  EDQUOT: "has no room left for this user",
  ENOTDIR: "is not a folder",
  EEXIST: "is not a folder",
  ENOENT: "cannot be made",
  EBUSY: "is still being written by another process; try again when that has ended, or",
};

function unusable(folder: string, why: string, cause?: unknown): SconceError {
  return new SconceError("cache_unusable", `libraries cannot be kept: ${folder} ${why}; ${fix}`, { cause });
}

/** As the kernel lists the mounts; elsewhere the loading itself will tell. */
function isNoexec(folder: string): boolean {
  let mounts: string;
  try {
    mounts = readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return false;
  }
  const path = realpathSync(folder);
  const options = mounts
    .split("\n")
    .map((line) => line.split(" "))
    .map(([, , , , point = "", flags = ""]) => ({ point: unescaped(point), flags: flags.split(",") }))
    .filter(({ point }) => path === point || path.startsWith(point.endsWith("/") ? point : `${point}/`))
    // Of two mounts at one place the later one hides the other.
    .reduce<{ point: string; flags: string[] } | undefined>(
      (best, mount) => (best && best.point.length > mount.point.length ? best : mount),
      undefined,
    );
  return options?.flags.includes("noexec") ?? false;
}

/** Spaces and the like are written in octal there. */
function unescaped(point: string): string {
  return point.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
