/** The files of an input that were elsewhere, and the memory that they take from their first byte until they are let go of. */

import type { ModelFile } from "../../author/file.ts";
import type { Gate } from "../../base/collections/gate.ts";
import { FileMemory, NoRoomNow } from "../memory/file-memory.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { FetchedFile } from "./fetcher.ts";
import type { ItemPipeline } from "./item-pipeline.ts";

export interface FetchOptions {
  readonly pipeline: ItemPipeline;
  readonly gate: Gate;
  /** One place: who is there may wait for room with a part of the files that it needs. */
  readonly patience: Gate;
  readonly memory: MemoryAccount;
  /** For whom it is: each has its turn. */
  readonly owner: object;
  readonly signal: AbortSignal;
  /** What is told of the error of a file. */
  readonly told?: (index: number, error: unknown) => unknown;
}

export class FetchedFiles implements Disposable {
  readonly #memory: FileMemory;

  /**
   * Fetches files that are needed at the same time; when one cannot be had the others are not fetched on. One file waits for room; several are
   * given back where there is none for one of them, and fetched again when no others wait with some of theirs.
   * @throws SconceError of the fetcher, or of the field that does not take a file
   */
  static async fetch(files: readonly ModelFile[], options: FetchOptions): Promise<FetchedFiles> {
    if (files.length < 2) return fetchAll(files, options, true);
    try {
      return await fetchAll(files, options, false);
    } catch (error) {
      if (!(error instanceof NoRoomNow)) throw error;
      return options.patience.run(options.owner, () => {
        options.signal.throwIfAborted();
        return fetchAll(files, options, true);
      });
    }
  }

  /** For `fetch`. */
  constructor(memory: FileMemory) {
    this.#memory = memory;
  }

  get bytes(): number {
    return this.#memory.bytes;
  }

  [Symbol.dispose](): void {
    this.#memory[Symbol.dispose]();
  }
}

async function fetchAll(
  files: readonly ModelFile[],
  { pipeline, gate, memory: account, owner, signal, told = (_, error) => error }: FetchOptions,
  isPatient: boolean,
): Promise<FetchedFiles> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const memory = new FileMemory(account, { count: files.length, isPatient });
  const fetchOne = async (index: number): Promise<FetchedFile> => {
    const file = files[index];
    if (file === undefined) throw new RangeError("there is no such file");
    try {
      return await pipeline.fetch(file, either, memory.charge(index));
    } catch (error) {
      throw error instanceof NoRoomNow ? error : told(index, error);
    }
  };
  try {
    const contents: FetchedFile[] = [];
    if (isPatient && files.length > 1) {
      // One after the other, and not through the gate: who is there may wait for what these hold.
      for (const index of files.keys()) contents.push(await fetchOne(index));
    } else {
      contents.push(...(await Promise.all(files.map((_, index) => gate.run(owner, () => fetchOne(index))))));
    }
    // Not before all are there: files of an input that is tried again are fetched again.
    for (const [index, content] of contents.entries()) {
      try {
        files[index]?.fill(content);
      } catch (error) {
        throw told(index, error);
      }
    }
    return new FetchedFiles(memory);
  } catch (error) {
    memory[Symbol.dispose]();
    failed.abort();
    throw error;
  }
}
