/**
 * A private temporary folder of one running program, for Unix sockets and shared counters of a server, or for unpacked
 * libraries.
 */
import { chmodSync, readdirSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import { messageOf, SconceError } from "../../base/errors.ts";
import { temporaryFolder } from "../files/temporary-folder.ts";

const prefix = "sconce-run-";
/**
 * Longest path of a Unix socket in bytes: `sun_path` has 108 bytes on Linux and 104 elsewhere, including the final
 * zero.
 */
const MAX_SOCKET_PATH = process.platform === "linux" ? 107 : 103;
/** Longest name of a file in the folder, in bytes, so that paths of sockets stay short enough. */
const MAX_NAME = 24;
/**
 * Interval in milliseconds at which the folder's times are updated, because cleaners of `/tmp` remove files that are
 * untouched for a day or more.
 */
const TOUCH_MS = 3_600_000;

export interface RunFolder extends Disposable {
  /** Absolute path of the folder. */
  readonly path: string;
  /** The path of a file in the folder. @param name at most 24 bytes */
  join(name: string): string;
}

/**
 * Creates the folder in the first usable place. The folder is removed when this process exits.
 * @param places parent folders to try. Default: the folder for temporary files, then `$XDG_RUNTIME_DIR`, which vanishes
 * when the user logs out, then `/dev/shm`
 * @throws SconceError `processes_unavailable`
 */
export function makeRunFolder(places: readonly string[] = defaultPlaces()): RunFolder {
  const faults: string[] = [];
  for (const place of places) {
    try {
      return makeIn(place);
    } catch (error) {
      faults.push(`${place} (${messageOf(error)})`);
    }
  }
  throw new SconceError(
    "processes_unavailable",
    `the server's processes need a folder for their sockets, and none of these will do: ${faults.join(", ")}; set TMPDIR to a folder that can be written, with a path of less than ${longestPlace} bytes`,
  );
}

const longestPlace = MAX_SOCKET_PATH - `/${prefix}123456/`.length - MAX_NAME;

function defaultPlaces(): string[] {
  const { XDG_RUNTIME_DIR: runtime = "" } = process.env;
  return [...new Set([tmpdir(), ...(isAbsolute(runtime) ? [runtime] : []), "/dev/shm"])];
}

function makeIn(place: string): RunFolder {
  if (!isAbsolute(place)) throw new Error("not an absolute path");
  if (Buffer.byteLength(place) > longestPlace) throw new Error("too long a path for sockets");
  const folder = temporaryFolder(place, prefix);
  const { path } = folder;
  try {
    // Sets the mode explicitly, because the umask may restrict the mode of `mkdir`.
    chmodSync(path, 0o700);
  } catch (error) {
    folder[Symbol.dispose]();
    throw error;
  }
  const touching = setInterval(() => touch(path), TOUCH_MS);
  touching.unref();
  return {
    path,
    join(name) {
      if (Buffer.byteLength(name) > MAX_NAME) throw new RangeError(`${name} has more than ${MAX_NAME} bytes`);
      return join(path, name);
    },
    [Symbol.dispose]() {
      clearInterval(touching);
      folder[Symbol.dispose]();
    },
  };
}

function touch(folder: string): void {
  const now = new Date();
  for (const path of [folder, ...readdirSync(folder).map((name) => join(folder, name))]) {
    try {
      utimesSync(path, now, now);
    } catch {
      // The folder was removed meanwhile.
    }
  }
}
