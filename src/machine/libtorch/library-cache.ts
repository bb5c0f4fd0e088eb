/**
 * The cache of libraries that executables unpack. A folder's name contains the digest of its pack (the compressed
 * libraries). The folder gets its name only when it is complete.
 */
import { accessSync, chmodSync, constants, existsSync, mkdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { onAllCores } from "../../base/parallel.ts";
import { type FileLock, lockWhenFree } from "../files/lock.ts";
import { madeOnce } from "../files/made-once.ts";
import { cacheFault, requirePrivate, requireSpace, secureFolder } from "./cache-folder.ts";
import { checksumOf, type LibraryPack, type PackedFile, unpackedSize } from "./pack.ts";

/**
 * Limit of the wait for another process that unpacks. It allows for several servers that start together on a slow disk.
 */
const LOCK_TIMEOUT_MS = 300_000;
const unfinishedPrefix = ".unpacking-";

export interface UnpackListener {
  /** Called when unpacking into `folder` begins. */
  unpacking(folder: string): void;
  /** Called when another process holds the lock of the cache `folder`, because it unpacks libraries. */
  waiting(folder: string): void;
}

export class LibraryCache {
  /** Absolute path of the cache; the folder may not exist yet. */
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  /**
   * Returns the folder with the unpacked files of a pack. Unpacks them first if there is no such folder. Safe against
   * kills at any moment and against concurrent runs.
   * @throws SconceError `cache_unusable` with a fix
   */
  async unpacked(pack: LibraryPack, listener: UnpackListener): Promise<string> {
    const home = secureFolder(this.folder);
    const folder = join(home, `libtorch-${pack.digest.slice(0, 16)}`);
    try {
      if (isThere(folder)) return folder;
      using _lock = await lock(home, () => listener.waiting(home));
      // During the wait for the lock, another process may have unpacked the files.
      if (isThere(folder)) return folder;
      requireSpace(home, unpackedSize(pack));
      listener.unpacking(folder);
      await unpack(pack, folder);
      return folder;
    } catch (error) {
      throw cacheFault(error, home);
    }
  }
}

/** Whether the folder exists. @throws SconceError `cache_unusable` if other users can write to it */
function isThere(folder: string): boolean {
  if (!existsSync(folder)) return false;
  requirePrivate(folder);
  return true;
}

/** Waits for the cache's lock without blocking the thread, because the server already answers liveness probes. */
async function lock(home: string, onWait: () => void): Promise<FileLock> {
  accessSync(home, constants.W_OK);
  const lock = await lockWhenFree(join(home, ".lock"), { timeoutMs: LOCK_TIMEOUT_MS, onWait });
  if (lock !== undefined) return lock;
  throw Object.assign(new Error("another process holds the lock of the cache"), { code: "EBUSY" });
}

async function unpack(pack: LibraryPack, folder: string): Promise<void> {
  const make = async (temporary: string) => {
    mkdirSync(temporary, { mode: 0o700 });
    for (const file of pack.files) await unpackFile(pack, file, join(temporary, file.name));
  };
  await madeOnce(folder, make, unfinishedPrefix);
}

async function unpackFile(pack: LibraryPack, file: PackedFile, path: string): Promise<void> {
  await using output = await open(path, "wx", 0o600);
  const packed = Bun.file(pack.path);
  let begin = 0;
  const placed = file.chunks.map((chunk) => {
    const position = begin;
    begin += chunk.size;
    return { ...chunk, position };
  });
  await onAllCores(placed, async ({ offset, packedSize, position, checksum }) => {
    const bytes = await decompressed(await packed.slice(offset, offset + packedSize).bytes());
    if (bytes === undefined || checksumOf(bytes) !== checksum) {
      throw new SconceError(
        "native_unavailable",
        `${file.name} in this executable is damaged; compile it or copy it again`,
      );
    }
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await output.write(bytes, done, bytes.length - done, position + done);
      done += bytesWritten;
    }
  });
  // Before the folder gets its name: after a power loss, a named folder has whole files.
  await output.sync();
  chmodSync(path, 0o500);
}

/** Decompresses a chunk. Undefined when the bytes are damaged. */
async function decompressed(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    const { buffer, byteOffset, length } = await Bun.zstdDecompress(bytes);
    return buffer instanceof ArrayBuffer ? new Uint8Array(buffer, byteOffset, length) : undefined;
  } catch {
    return undefined;
  }
}
