/** A blob that is being downloaded: a file that grows, and the hash of its bytes. */
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { SconceError } from "../../base/errors.ts";
import type { BlobRef, StagedBlob } from "./blobs.ts";

export class PartialBlob implements AsyncDisposable {
  readonly blob: BlobRef;
  readonly #path: string;
  readonly #file: FileHandle;
  #hasher = new Bun.CryptoHasher("sha256");
  #doneBytes = 0;

  private constructor(blob: BlobRef, path: string, file: FileHandle) {
    this.blob = blob;
    this.#path = path;
    this.#file = file;
  }

  /** Creates the file in `folder`. */
  static async open(blob: BlobRef, folder: string): Promise<PartialBlob> {
    const path = join(folder, crypto.randomUUID());
    return new PartialBlob(blob, path, await open(path, "ax", 0o644));
  }

  get doneBytes(): number {
    return this.#doneBytes;
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
}
