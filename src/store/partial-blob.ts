/** A blob that comes in pieces, perhaps over several runs: a file that grows, and the hash of what is in it. */
import { statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { SconceError } from "../errors.ts";
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

  /** How many bytes an earlier run left of the blob in `folder`. */
  static sizeOf(digest: string, folder: string): number {
    return statSync(pathOf(digest, folder), { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Opens what an earlier run left of the blob in `folder`, or an empty file. */
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

  /** How much of it is there. */
  get doneBytes(): number {
    return this.#doneBytes;
  }

  /** How much of it an earlier run had left. */
  get foundBytes(): number {
    return this.#foundBytes;
  }

  /** @throws SconceError `registry_corrupt` when it is more than the blob has */
  async append(bytes: Uint8Array): Promise<void> {
    if (this.#doneBytes + bytes.length > this.blob.size) {
      throw new SconceError("registry_corrupt", `blob ${this.blob.digest} is longer than its ${this.blob.size} bytes`);
    }
    await this.#file.writeFile(bytes);
    this.#hasher.update(bytes);
    this.#doneBytes += bytes.length;
  }

  /** Forgets all that is there. */
  async restart(): Promise<void> {
    await this.#file.truncate(0);
    this.#hasher = new Bun.CryptoHasher("sha256");
    this.#doneBytes = 0;
    this.#foundBytes = 0;
  }

  /** The blob, durable and ready for the store; undefined unless it has its size and its digest. */
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
