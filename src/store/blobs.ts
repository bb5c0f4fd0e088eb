/** Files named by the digest of their content. A blob is complete from the moment it has its name. */
import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { isNoFile, SconceError } from "../errors.ts";
import { isDigest } from "./reference.ts";

/** The content of a blob as manifests name it; `size` in bytes. */
export interface BlobRef {
  readonly digest: string;
  readonly size: number;
}

/** A blob that is ready for the store: in it already, or in a file that only has to be renamed. */
export interface StagedBlob extends BlobRef {
  readonly stagedPath?: string;
}

export interface CopyOptions {
  /** Told after every chunk how many bytes are done. */
  onProgress?: ((doneBytes: number, totalBytes: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

const chunkBytes = 1024 * 1024;

export class Blobs {
  readonly folder: string;

  constructor(home: string) {
    this.folder = join(home, "blobs", "sha256");
  }

  path(digest: string): string {
    if (!isDigest(digest)) {
      throw new SconceError(
        "store_corrupt",
        `${JSON.stringify(digest)} is not a digest that this store can hold (sha256)`,
      );
    }
    return join(this.folder, digest.slice("sha256:".length));
  }

  /** Whether the blob is there with its size. Synchronous, so that it can be asked while the store is locked. */
  has(blob: BlobRef): boolean {
    return statSync(this.path(blob.digest), { throwIfNoEntry: false })?.size === blob.size;
  }

  /** Whether there is no such blob at all. */
  lacks({ digest }: BlobRef): boolean {
    return !existsSync(this.path(digest));
  }

  /**
   * Gets a file or bytes ready: hashes it and, unless the store has it already, makes a durable copy in `folder`. Until `place`
   * the copy belongs to its build, so that no other process can take it for garbage.
   *
   * @param folder of the build, on the store's file system
   * @param options.reuse false copies what the store has, too
   * @throws SconceError `model_invalid` when the path is no file; the signal's reason when it is aborted
   */
  async stage(
    source: string | Uint8Array,
    folder: string,
    options: CopyOptions & { reuse: boolean },
  ): Promise<StagedBlob> {
    if (typeof source !== "string") return this.#stageBytes(source, folder, options.reuse);
    await using input = await open(source, "r");
    const found = await input.stat();
    if (!found.isFile()) throw new SconceError("model_invalid", `${source} can't be read: it is not a file`);
    // Weights often stay the same from build to build: reading them is cheaper than writing them once more.
    if (options.reuse && this.#hasAnyOfSize(found.size)) {
      const known = await hashFile(input, undefined, { signal: options.signal });
      if (await this.isIntact(known, { signal: options.signal })) {
        options.onProgress?.(known.size, known.size);
        return known;
      }
    }
    // Awaited, or the input would be closed before it is read.
    return await stageFile(folder, (output) => hashFile(input, output, options));
  }

  /** Whether the blob is in the store, or staged. */
  isAtHand(blob: StagedBlob): boolean {
    return blob.stagedPath !== undefined || this.has(blob);
  }

  /** Gives a staged blob its name in the store; the caller holds the store's lock. */
  place(blob: StagedBlob): void {
    if (blob.stagedPath !== undefined) renameSync(blob.stagedPath, this.path(blob.digest));
  }

  /**
   * The bytes of a small blob, checked against its digest.
   *
   * @throws SconceError `store_corrupt`
   */
  async read(blob: BlobRef): Promise<Uint8Array> {
    await this.check(blob);
    return readIntact({ path: this.path(blob.digest), digest: blob.digest }).catch(orMissing(blob));
  }

  /**
   * Checks that the blob is there with its size, without reading it.
   *
   * @throws SconceError `store_corrupt`
   */
  async check(blob: BlobRef): Promise<void> {
    const found = await stat(this.path(blob.digest)).catch(orMissing(blob));
    if (found.size === blob.size) return;
    throw new SconceError(
      "store_corrupt",
      `blob ${blob.digest} has ${found.size} bytes; expected ${blob.size}: build the model again`,
    );
  }

  /**
   * Reads the whole blob and checks its digest.
   *
   * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
   */
  async verify(blob: BlobRef, options: CopyOptions = {}): Promise<void> {
    await this.check(blob);
    await using input = await open(this.path(blob.digest), "r").catch(orMissing(blob));
    const found = await hashFile(input, undefined, options);
    if (found.digest !== blob.digest) throw wrongDigest(this.path(blob.digest));
  }

  /** Whether the blob is there with its content. */
  async isIntact(blob: BlobRef, options: CopyOptions = {}): Promise<boolean> {
    if (!this.has(blob)) return false;
    try {
      await this.verify(blob, options);
      return true;
    } catch (error) {
      if (error instanceof SconceError && error.code === "store_corrupt") return false;
      throw error;
    }
  }

  /** The digests of all blobs. */
  all(): string[] {
    return readdirSync(this.folder)
      .map((name) => `sha256:${name}`)
      .filter(isDigest);
  }

  /** Removes a blob and returns how many bytes it had. Processes that have it open keep it. */
  remove(digest: string): number {
    const path = this.path(digest);
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    rmSync(path, { force: true });
    return size;
  }

  async #stageBytes(bytes: Uint8Array, folder: string, reuse: boolean): Promise<StagedBlob> {
    const blob = { digest: digestOf(bytes), size: bytes.length };
    if (reuse && (await this.isIntact(blob))) return blob;
    return stageFile(folder, async (output) => {
      await output.writeFile(bytes);
      return blob;
    });
  }

  #hasAnyOfSize(size: number): boolean {
    return this.all().some((digest) => this.has({ digest, size }));
  }
}

/** Of a file that is not there, or not any more: another process may have removed it since it was looked for. */
function orMissing({ digest }: BlobRef): (error: unknown) => never {
  return (error) => {
    if (!isNoFile(error)) throw error;
    const message = `blob ${digest} is missing from the store; build the model again`;
    throw new SconceError("store_corrupt", message, { cause: error });
  };
}

async function stageFile(folder: string, fill: (output: FileHandle) => Promise<BlobRef>): Promise<StagedBlob> {
  const stagedPath = join(folder, crypto.randomUUID());
  await using output = await open(stagedPath, "wx", 0o644);
  const blob = await fill(output);
  await output.sync();
  return { ...blob, stagedPath };
}

/** `sha256:<hex>` of some bytes. */
export function digestOf(bytes: Uint8Array): string {
  return `sha256:${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}`;
}

/** Hashes a file from its start to its end, and copies it on the way where there is an output. */
async function hashFile(input: FileHandle, output: FileHandle | undefined, options: CopyOptions): Promise<BlobRef> {
  const hasher = new Bun.CryptoHasher("sha256");
  const buffer = new Uint8Array(chunkBytes);
  const { size: totalBytes } = await input.stat();
  let size = 0;
  for (;;) {
    options.signal?.throwIfAborted();
    const { bytesRead } = await input.read(buffer, 0, buffer.length, size);
    if (bytesRead === 0) break;
    const chunk = buffer.subarray(0, bytesRead);
    hasher.update(chunk);
    await output?.writeFile(chunk);
    size += bytesRead;
    options.onProgress?.(size, Math.max(size, totalBytes));
  }
  return { digest: `sha256:${hasher.digest("hex")}`, size };
}

/**
 * The bytes of a file, checked against their digest.
 *
 * @throws SconceError `store_corrupt`
 */
export async function readIntact({ path, digest }: { path: string; digest: string }): Promise<Uint8Array> {
  const bytes = await Bun.file(path).bytes();
  if (digestOf(bytes) !== digest) throw wrongDigest(path);
  return bytes;
}

function wrongDigest(path: string): SconceError {
  return new SconceError(
    "store_corrupt",
    `${path} does not have the content of its digest; build the model again, or pull it again`,
  );
}
