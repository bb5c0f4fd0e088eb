/**
 * The cache of libraries that executables unpack. A folder's name contains the digest of its pack (the compressed
 * libraries). The folder gets its name only when it is complete.
 */
import { accessSync, chmodSync, constants, existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { onAllCores } from "../../base/parallel.ts";
import { type FileLock, lockWhenFree } from "../files/lock.ts";
import { madeOnce } from "../files/made-once.ts";
import { cacheFault, requirePrivate, requireSpace, secureFolder } from "./cache-folder.ts";
import { checksumOf, type LibraryPack, type PackedFile, unpackedSize } from "./pack.ts";
import { sha256 } from "./sha256.ts";
import { hasStamp, stampOf, writeStamp } from "./stamp.ts";

/**
 * Limit of the wait for another process that unpacks. It allows for several servers that start together on a slow disk.
 */
const LOCK_TIMEOUT_MS = 300_000;
const prefix = "libtorch-";
const finished = /^libtorch-[0-9a-f]{16}$/;
const unfinishedPrefix = ".unpacking-";
const unfinished = /^\.unpacking-\w{6}$/;

export interface UnpackListener {
  /** Called when unpacking into `folder` begins. */
  unpacking(folder: string): void;
  progress(doneBytes: number, totalBytes: number): void;
  /** Called when another process holds the lock of the cache `folder`, because it unpacks libraries. */
  waiting(folder: string): void;
  /** Called when an unpacked file is missing or has changed, before the pack is unpacked again. */
  changed(name: string, folder: string): void;
}

export class LibraryCache {
  /** Absolute path of the cache; the folder may not exist yet. */
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  /**
   * Returns the folder with the unpacked files of a pack. Unpacks them first if any is missing or changed. Safe against
   * kills at any moment and against concurrent runs.
   * @throws SconceError `cache_unusable` with a fix
   */
  async unpacked(pack: LibraryPack, listener: UnpackListener): Promise<string> {
    const home = secureFolder(this.folder);
    try {
      const folder = folderOf(home, pack);
      if (existsSync(folder) && (await firstChanged(folder, pack)) === undefined) return folder;
      using _lock = await lock(home, () => listener.waiting(home));
      sweep(home);
      // During the wait for the lock, another process may have unpacked the files.
      const changed = await firstChanged(folder, pack);
      if (changed === undefined) return folder;
      if (existsSync(folder)) {
        listener.changed(changed, folder);
        rmSync(folder, { recursive: true });
      }
      requireSpace(home, unpackedSize(pack));
      listener.unpacking(folder);
      await unpack(pack, folder, listener);
      return folder;
    } catch (error) {
      throw cacheFault(error, home);
    }
  }

  /**
   * Removes the unpacked libraries of all packs but `pack`. Processes that have loaded them are not affected.
   * @returns the removed folders and their total bytes
   */
  async clean(pack: LibraryPack | undefined): Promise<{ readonly folders: readonly string[]; readonly bytes: number }> {
    if (!existsSync(this.folder)) return { folders: [], bytes: 0 };
    const home = secureFolder(this.folder);
    try {
      using _lock = await lock(home);
      sweep(home);
      const current = pack && folderOf(home, pack);
      const folders = named(home, finished).filter((folder) => folder !== current);
      const bytes = folders.reduce((sum, folder) => sum + sizeOf(folder), 0);
      for (const folder of folders) rmSync(folder, { recursive: true });
      return { folders, bytes };
    } catch (error) {
      throw cacheFault(error, home);
    }
  }
}

function folderOf(home: string, { digest }: LibraryPack): string {
  return join(home, `${prefix}${digest.slice(0, 16)}`);
}

/** Waits for the cache's lock without blocking the thread, because the server already answers liveness probes. */
async function lock(home: string, onWait?: () => void): Promise<FileLock> {
  accessSync(home, constants.W_OK);
  const wait = { timeoutMs: LOCK_TIMEOUT_MS, ...(onWait && { onWait }) };
  const lock = await lockWhenFree(join(home, ".lock"), wait);
  if (lock !== undefined) return lock;
  throw Object.assign(new Error("another process holds the lock of the cache"), { code: "EBUSY" });
}

/** Removes unfinished folders of killed processes. The caller holds the lock, so no other process is unpacking. */
function sweep(home: string): void {
  for (const folder of named(home, unfinished)) rmSync(folder, { recursive: true });
}

/** Paths of the folders whose names match the pattern. */
function named(home: string, pattern: RegExp): string[] {
  return readdirSync(home, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && pattern.test(entry.name))
    .map(({ name }) => join(home, name));
}

async function unpack(pack: LibraryPack, folder: string, listener: UnpackListener): Promise<void> {
  let doneBytes = 0;
  const onBytes = (bytes: number) => {
    doneBytes += bytes;
    listener.progress(doneBytes, unpackedSize(pack));
  };
  const make = async (temporary: string) => {
    mkdirSync(temporary, { mode: 0o700 });
    for (const file of pack.files) await unpackFile(pack, file, join(temporary, file.name), onBytes);
  };
  await madeOnce(folder, make, unfinishedPrefix);
  // The stamp contains the files' metadata. A copy of the folder has other metadata, so its files are checked again.
  const stamp = stampOf(folder, namesOf(pack));
  if (stamp !== undefined) writeStamp(folder, stamp);
}

async function unpackFile(
  pack: LibraryPack,
  file: PackedFile,
  path: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
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
    onBytes(bytes.length);
  });
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

/** The first missing or changed file of a pack; undefined if all are intact. */
async function firstChanged(folder: string, pack: LibraryPack): Promise<string | undefined> {
  if (!existsSync(folder)) return pack.files[0]?.name;
  requirePrivate(folder);
  if (hasStamp(folder, namesOf(pack))) return undefined;
  // The stamp is taken before the files are read, so a write during the read invalidates it.
  const stamp = stampOf(folder, namesOf(pack));
  for (const file of pack.files) {
    if (!(await isAsPacked(join(folder, file.name), file))) return file.name;
  }
  if (stamp !== undefined) writeStamp(folder, stamp);
  return undefined;
}

async function isAsPacked(path: string, { size, chunks }: PackedFile): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile() || found.size !== size) return false;
  const file = Bun.file(path);
  let begin = 0;
  const parts = chunks.map((chunk) => {
    const part = file.slice(begin, begin + chunk.size);
    begin += chunk.size;
    return { part, sha256: chunk.sha256 };
  });
  const same = await onAllCores(parts, async (each) => (await sha256(await each.part.bytes())) === each.sha256);
  return same.every(Boolean);
}

function namesOf({ files }: LibraryPack): string[] {
  return files.map(({ name }) => name);
}

function sizeOf(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}
