/**
 * Fetches the files of an input, or of all inputs of a demo. The memory account (`--max-memory`) counts their bytes
 * until the caller disposes the result.
 */

import type { ModelFile } from "../author/file.ts";
import { Gate } from "../base/collections/gate.ts";
import type { FetchedFile } from "./fetcher.ts";
import type { ItemPipeline } from "./item-pipeline.ts";
import { FileMemory, NoRoomNow } from "./memory/file-memory.ts";
import type { MemoryAccount } from "./memory/memory-account.ts";

interface FileFetchesOptions {
  readonly pipeline: ItemPipeline;
  readonly memory: MemoryAccount;
  readonly maxFetches: number;
}

interface FetchOptions {
  /** The client of the files. Clients take turns. */
  readonly owner: object;
  readonly signal: AbortSignal;
  /** Converts an error of the file at `index`. */
  readonly convertError?: (index: number, error: unknown) => unknown;
}

export class FileFetches {
  readonly #options: FileFetchesOptions;
  readonly #gate: Gate;
  /** Admits one input at a time that waits for memory while it holds files. Two such inputs could wait for each other. */
  readonly #severalFiles = new Gate(1);

  constructor(options: FileFetchesOptions) {
    this.#options = options;
    this.#gate = new Gate(options.maxFetches);
  }

  /** Whether the next file would have to wait. */
  get areFull(): boolean {
    return this.#gate.isFull;
  }

  /**
   * Fetches all files. A single file waits for memory. If memory is short for several files, all are freed. They are
   * fetched again, one by one, when no other input with several files waits for memory.
   * @returns the memory charges of the files; the caller disposes them
   * @throws SconceError of the first failed fetch, or of a field that does not accept the content of its file
   */
  async fetch(files: readonly ModelFile[], options: FetchOptions): Promise<FileMemory> {
    if (files.length < 2) return this.#fetchAll(files, options, true);
    try {
      return await this.#fetchAll(files, options, false);
    } catch (error) {
      if (!(error instanceof NoRoomNow)) throw error;
      return this.#severalFiles.run(options.owner, () => {
        options.signal.throwIfAborted();
        return this.#fetchAll(files, options, true);
      });
    }
  }

  async #fetchAll(
    files: readonly ModelFile[],
    { owner, signal, convertError = (_, error) => error }: FetchOptions,
    isPatient: boolean,
  ): Promise<FileMemory> {
    const { pipeline, memory: account } = this.#options;
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const memory = new FileMemory(account, { count: files.length, isPatient });
    const fetchOne = async (index: number): Promise<FetchedFile> => {
      const file = files[index];
      if (file === undefined) throw new RangeError("there is no such file");
      try {
        return await pipeline.fetch(file, either, memory.charge(index));
      } catch (error) {
        throw error instanceof NoRoomNow ? error : convertError(index, error);
      }
    };
    try {
      const contents: FetchedFile[] = [];
      if (isPatient && files.length > 1) {
        // Fetches the files outside the gate: fetches inside the gate may wait for the memory that this input holds.
        for (const index of files.keys()) contents.push(await fetchOne(index));
      } else {
        contents.push(...(await Promise.all(files.map((_, index) => this.#gate.run(owner, () => fetchOne(index))))));
      }
      // Sets the content of the files only after the last fetch, because a retry fetches all of them again.
      for (const [index, content] of contents.entries()) {
        try {
          files[index]?.fill(content);
        } catch (error) {
          throw convertError(index, error);
        }
      }
      return memory;
    } catch (error) {
      memory[Symbol.dispose]();
      failed.abort();
      throw error;
    }
  }
}
