/**
 * Fetches the files of an input, or of all inputs of a demo. The memory account (`--max-memory`) counts their bytes
 * until the caller disposes the result.
 */

import type { ModelFile } from "../author/file.ts";
import { Gate } from "../base/collections/gate.ts";
import type { ItemPipeline } from "./item-pipeline.ts";
import { FileMemory } from "./memory/file-memory.ts";
import type { MemoryAccount } from "./memory/memory-account.ts";

interface FileFetchesOptions {
  readonly pipeline: ItemPipeline;
  readonly memory: MemoryAccount;
  /** Maximum number of inputs whose files are fetched at the same time. */
  readonly maxFetches: number;
}

interface FetchOptions {
  /** The client of the files. Clients take turns. */
  readonly owner: object;
  readonly signal: AbortSignal;
  /** Converts an error of the file at `index`. */
  readonly convertError?: (index: number, error: unknown) => unknown;
}

/** Maximum number of simultaneous fetches for one input. */
const MAX_OF_INPUT = 8;

export class FileFetches {
  readonly #options: FileFetchesOptions;
  readonly #inputs: Gate;

  constructor(options: FileFetchesOptions) {
    this.#options = options;
    this.#inputs = new Gate(options.maxFetches);
  }

  /** Whether the files of the next input would have to wait. */
  get areFull(): boolean {
    return this.#inputs.isFull;
  }

  /**
   * Fetches all files of an input. Waits for a free place, then for memory.
   * @returns the memory of the files; the caller disposes it
   * @throws SconceError of the first failed fetch, or of a field that does not accept the content of its file
   */
  fetch(files: readonly ModelFile[], options: FetchOptions): Promise<FileMemory> {
    if (files.length === 0) return this.#fetchAll(files, options);
    return this.#inputs.run(options.owner, () => this.#fetchAll(files, options));
  }

  async #fetchAll(
    files: readonly ModelFile[],
    { signal, convertError = (_, error) => error }: FetchOptions,
  ): Promise<FileMemory> {
    const { pipeline, memory: account } = this.#options;
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const memory = new FileMemory(account, files.length);
    const gate = new Gate(MAX_OF_INPUT);
    const fetchOne = async (file: ModelFile, index: number) => {
      try {
        file.fill(await pipeline.fetch(file, either, memory));
      } catch (error) {
        throw convertError(index, error);
      }
    };
    try {
      await Promise.all(files.map((file, index) => gate.run(this, () => fetchOne(file, index))));
      memory.settle();
      return memory;
    } catch (error) {
      memory[Symbol.dispose]();
      failed.abort();
      throw error;
    }
  }
}
