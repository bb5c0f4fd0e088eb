/**
 * A blob that is being downloaded: a file that grows, and the hash of its bytes. A later run can resume the download.
 */
import { statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import type { BlobRef, StagedBlob } from "./blobs.ts";

const chunkBytes = 1024 * 1024;

function pathOf(digest: string, folder: string): string {
  return join(folder, digest.slice("sha256:".length));
}

export class PartialBlob implements AsyncDisposable {
  readonly blob: BlobRef;
  readonly #path: string;
  readonly #file: FileHandle;
  #hasher = new Bun.CryptoHasher("sha256");
  #doneBytes = 0;
  #foundBytes = 0;

  private constructor(blob: BlobRef, path: string, file: FileHandle) {
    this.blob = blob;
    this.#path = path;
    this.#file = file;
  }

  /** Bytes that an earlier run downloaded to `folder`; 0 if there is no file. */
  static sizeOf(digest: string, folder: string): number {
    return statSync(pathOf(digest, folder), { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Opens the file of an earlier run in `folder` and hashes its bytes. Creates the file if it does not exist. */
  static async open(blob: BlobRef, folder: string, signal?: AbortSignal): Promise<PartialBlob> {
    const path = pathOf(blob.digest, folder);
    const partial = new PartialBlob(blob, path, await open(path, "a+", 0o644));
    try {
      await partial.#readOn(signal);
      return partial;
    } catch (error) {
      await partial[Symbol.asyncDispose]();
      throw error;
    }
  }

  get doneBytes(): number {
    return this.#doneBytes;
  }

  /** Number of bytes that an earlier run had downloaded; 0 after `restart`. */
  get foundBytes(): number {
    return this.#foundBytes;
  }

  /** Appends downloaded bytes. @throws SconceError `registry_corrupt` when the bytes exceed the blob's size */
  async append(bytes: Uint8Array): Promise<void> {
    if (this.#doneBytes + bytes.length > this.blob.size) {
      throw new SconceError("registry_corrupt", `blob ${this.blob.digest} is longer than its ${this.blob.size} bytes`);
    }
    await this.#file.writeFile(bytes);
    this.#hasher.update(bytes);
    this.#doneBytes += bytes.length;
  }

  /** Deletes all bytes of the file. */
  async restart(): Promise<void> {
    await this.#file.truncate(0);
    this.#hasher = new Bun.CryptoHasher("sha256");
    this.#doneBytes = 0;
    this.#foundBytes = 0;
  }

  /** Flushes the file to disk and returns it as a blob; undefined if size or digest is wrong. */
  async finish(): Promise<StagedBlob | undefined> {
    const { digest, size } = this.blob;
    if (this.#doneBytes !== size || `sha256:${this.#hasher.copy().digest("hex")}` !== digest) return undefined;
    await this.#file.sync();
    return { digest, size, stagedPath: this.#path };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#file.close();
  }

  async #readOn(signal: AbortSignal | undefined): Promise<void> {
    const { size } = await this.#file.stat();
    if (size > this.blob.size) return this.restart();
    const buffer = new Uint8Array(chunkBytes);
    for (;;) {
      signal?.throwIfAborted();
      const { bytesRead } = await this.#file.read(buffer, 0, buffer.length, this.#doneBytes);
      if (bytesRead === 0) break;
      this.#hasher.update(buffer.subarray(0, bytesRead));
      this.#doneBytes += bytesRead;
    }
    this.#foundBytes = this.#doneBytes;
  }
}
