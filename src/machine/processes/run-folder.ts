/**
 * A private temporary folder of one running program, for Unix sockets and shared counters of a server, or for unpacked
 * libraries.
 */
import { chmodSync, lstatSync, mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs";
import { createConnection, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import { codeOf, messageOf, SconceError } from "../../base/errors.ts";

const prefix = "sconce-run-";
const named = /^sconce-run-\w{6}$/;
/** Socket on which the server listens until it ends. A folder whose socket refuses connections is abandoned. */
const aliveName = "alive.sock";
/**
 * Longest path of a Unix socket in bytes: `sun_path` has 108 bytes on Linux and 104 elsewhere, including the final
 * zero.
 */
const MAX_SOCKET_PATH = process.platform === "linux" ? 107 : 103;
/** Longest name of a file in the folder, in bytes, so that paths of sockets stay short enough. */
const MAX_NAME = 24;
/** Age in milliseconds at which a folder without the server's socket counts as abandoned. */
const UNFINISHED_MS = 60_000;
/**
 * Interval in milliseconds at which the folder's times are updated, because cleaners of `/tmp` remove files that are
 * untouched for a day or more.
 */
const TOUCH_MS = 3_600_000;

export interface RunFolder extends AsyncDisposable {
  /** Absolute path of the folder. */
  readonly path: string;
  /** The path of a file in the folder. @param name at most 24 bytes */
  join(name: string): string;
}

/**
 * Creates the folder in the first usable place, and removes folders there that killed servers of this user left. The
 * folder is removed when this process exits.
 * @param places parent folders to try. Default: the folder for temporary files, then `$XDG_RUNTIME_DIR`, which vanishes
 * when the user logs out, then `/dev/shm`
 * @throws SconceError `processes_unavailable`
 */
export async function makeRunFolder(places: readonly string[] = defaultPlaces()): Promise<RunFolder> {
  const faults: string[] = [];
  for (const place of places) {
    try {
      await sweep(place);
      return await makeIn(place);
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

async function makeIn(place: string): Promise<RunFolder> {
  if (!isAbsolute(place)) throw new Error("not an absolute path");
  if (Buffer.byteLength(place) > longestPlace) throw new Error("too long a path for sockets");
  const path = mkdtempSync(join(place, prefix));
  const remove = () => rmSync(path, { recursive: true, force: true });
  process.once("exit", remove);
  try {
    // Sets the mode explicitly, because the umask may restrict the mode of `mkdir`.
    chmodSync(path, 0o700);
    const alive = await listen(join(path, aliveName));
    const touching = setInterval(() => touch(path), TOUCH_MS);
    touching.unref();
    return {
      path,
      join(name) {
        if (Buffer.byteLength(name) > MAX_NAME) throw new RangeError(`${name} has more than ${MAX_NAME} bytes`);
        return join(path, name);
      },
      async [Symbol.asyncDispose]() {
        clearInterval(touching);
        await new Promise((resolve) => alive.close(resolve));
        process.off("exit", remove);
        remove();
      },
    };
  } catch (error) {
    process.off("exit", remove);
    remove();
    throw error;
  }
}

/** Listens on a Unix socket. Fails on file systems without sockets, even if they are writable. */
function listen(path: string): Promise<Server> {
  const { promise, resolve, reject } = Promise.withResolvers<Server>();
  const server = createServer((socket) => socket.destroy());
  server.once("error", reject);
  server.listen(path, () => resolve(server));
  server.unref();
  return promise;
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

async function sweep(place: string): Promise<void> {
  for (const name of readdirSync(place)) {
    const folder = join(place, name);
    if (named.test(name) && isOwn(folder) && (await isAbandoned(folder)))
      rmSync(folder, { recursive: true, force: true });
  }
}

function isOwn(folder: string): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === process.getuid?.();
}

/** Whether the server of a folder is dead: its socket refuses connections, or an old folder has no socket. */
async function isAbandoned(folder: string): Promise<boolean> {
  const code = await connect(join(folder, aliveName));
  if (code === "ECONNREFUSED") return true;
  const made = lstatSync(folder, { throwIfNoEntry: false });
  return code === "ENOENT" && made !== undefined && Date.now() - made.mtimeMs > UNFINISHED_MS;
}

/** Connects to a socket. @returns the error's code; undefined if a server accepts the connection */
function connect(path: string): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const socket = createConnection(path);
  socket.once("connect", () => {
    socket.destroy();
    resolve(undefined);
  });
  socket.once("error", (error) => resolve(codeOf(error)));
  return promise;
}
