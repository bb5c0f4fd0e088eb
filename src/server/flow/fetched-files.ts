/** Fetches the files of an input. The memory account counts them from their first byte until the result is disposed. */

import type { ModelFile } from "../../author/file.ts";
import type { Gate } from "../../base/collections/gate.ts";
import { FileMemory, NoRoomNow } from "../memory/file-memory.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { FetchedFile } from "./fetcher.ts";
import type { ItemPipeline } from "./item-pipeline.ts";

export interface FetchOptions {
  readonly pipeline: ItemPipeline;
  readonly gate: Gate;
  /** Lets one input at a time wait for memory while it holds some of its files. */
  readonly patience: Gate;
  readonly memory: MemoryAccount;
  /** The prediction or demo that the files belong to. At the gates, owners take turns. */
  readonly owner: object;
  readonly signal: AbortSignal;
  /** Converts the error of the file with this index. */
  readonly told?: (index: number, error: unknown) => unknown;
}

/**
 * Fetches all files of an input, until one fails. A single file waits for memory. Several files are freed when memory
 * is short. They are fetched again once no other input waits for memory with some of its files.
 * @returns the charges of the files, which the caller disposes with the files
 * @throws SconceError of the fetcher, or of the field that does not take a file
 */
export async function fetchFiles(files: readonly ModelFile[], options: FetchOptions): Promise<FileMemory> {
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

async function fetchAll(
  files: readonly ModelFile[],
  { pipeline, gate, memory: account, owner, signal, told = (_, error) => error }: FetchOptions,
  isPatient: boolean,
): Promise<FileMemory> {
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
      // One by one, and outside the gate: inputs inside the gate may wait for the memory that this input holds.
      for (const index of files.keys()) contents.push(await fetchOne(index));
    } else {
      contents.push(...(await Promise.all(files.map((_, index) => gate.run(owner, () => fetchOne(index))))));
    }
    // No file is filled before all are fetched: a second try fetches all of them again.
    for (const [index, content] of contents.entries()) {
      try {
        files[index]?.fill(content);
      } catch (error) {
        throw told(index, error);
      }
    }
    return memory;
  } catch (error) {
    memory[Symbol.dispose]();
    failed.abort();
    throw error;
  }
}
