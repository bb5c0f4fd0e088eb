/** Files named by the SHA-256 of their content (blobs). A file gets this name only when it is complete. */
import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { isNoFile, SconceError } from "../../base/errors.ts";
import { isDigest } from "./reference.ts";

/** Digest (`sha256:` and 64 hex digits) and size in bytes of a blob. */
export interface BlobRef {
  readonly digest: string;
  readonly size: number;
}

/**
 * A blob for the store. `stagedPath` is a temporary file with its content; undefined if the store already has the blob.
 */
export interface StagedBlob extends BlobRef {
  readonly stagedPath?: string;
}

export interface CopyOptions {
  /** Called after each chunk of 1 MiB. */
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

  /** Whether the store has a file for the digest, with this size. Does not read the content. */
  has(blob: BlobRef): boolean {
    return statSync(this.path(blob.digest), { throwIfNoEntry: false })?.size === blob.size;
  }

  lacks({ digest }: BlobRef): boolean {
    return !existsSync(this.path(digest));
  }

  /**
   * Hashes a file or bytes. Unless the store has the blob, writes a durable copy to `folder`, from which `place` moves
   * it into the store.
   * @param source path of a file, or bytes
   * @param folder temporary folder on the store's file system
   * @param options.reuse false writes a copy even if the store has the blob
   * @throws SconceError `model_invalid` when the path is not a file; the signal's reason when it is aborted
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
    // Hashes without writing if the store may have the blob: weights often stay the same between builds, and reading is
    // cheaper than writing.
    if (options.reuse && this.#hasAnyOfSize(found.size)) {
      const known = await hashFile(input, undefined, { signal: options.signal });
      if (await this.isIntact(known, { signal: options.signal })) {
        options.onProgress?.(known.size, known.size);
        return known;
      }
    }
    // Without `await`, `await using` would close `input` before it is read.
    return await stageFile(folder, (output) => hashFile(input, output, options));
  }

  isAtHand(blob: StagedBlob): boolean {
    return blob.stagedPath !== undefined || this.has(blob);
  }

  /** Moves the blob's temporary file, if any, into the store. The caller holds the store's lock. */
  place(blob: StagedBlob): void {
    if (blob.stagedPath !== undefined) renameSync(blob.stagedPath, this.path(blob.digest));
  }

  /**
   * Reads a whole blob into memory and checks its digest.
   * @throws SconceError `store_corrupt`
   */
  async read(blob: BlobRef): Promise<Uint8Array> {
    await this.check(blob);
    return readIntact({ path: this.path(blob.digest), digest: blob.digest }).catch(orMissing(blob));
  }

  /**
   * Checks that the blob exists and has its size. Does not read the content.
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
   * Reads the blob in chunks and checks its digest.
   * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
   */
  async verify(blob: BlobRef, options: CopyOptions = {}): Promise<void> {
    await this.check(blob);
    await using input = await open(this.path(blob.digest), "r").catch(orMissing(blob));
    const found = await hashFile(input, undefined, options);
    if (found.digest !== blob.digest) throw wrongDigest(this.path(blob.digest));
  }

  /** Whether the blob exists and its content matches its digest. */
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

  all(): string[] {
    return readdirSync(this.folder)
      .map((name) => `sha256:${name}`)
      .filter(isDigest);
  }

  /** Removes a blob and returns its size in bytes. A process that has the file open can still read it. */
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

/** Makes a `catch` handler that throws `store_corrupt` in place of the error of a missing file. */
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

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}`;
}

/** Hashes a file. If there is an `output`, writes the same bytes to it. */
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
 * Reads a file and checks its digest.
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
