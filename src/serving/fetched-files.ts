/** The files of an input that were elsewhere, and the memory that they take from their first byte until they are let go of. */
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { Gate } from "./gate.ts";
import type { ItemPipeline } from "./item-pipeline.ts";

export interface FetchOptions {
  readonly pipeline: ItemPipeline;
  readonly gate: Gate;
  readonly memory: MemoryAccount;
  /** For whom it is: each has its turn. */
  readonly owner: object;
  readonly signal: AbortSignal;
}

export class FetchedFiles implements Disposable {
  readonly #charges: readonly Charge[];

  /**
   * Fetches the files of an input that are elsewhere; when one cannot be had the others are not fetched on.
   * @throws SconceError of the fetcher, or of the field that does not take a file
   */
  static async fetch(input: unknown, options: FetchOptions): Promise<FetchedFiles> {
    const { pipeline, gate, memory, owner, signal } = options;
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const files = pipeline.remoteFilesOf(input);
    const fetched = new FetchedFiles(files.map(() => memory.add("files", 0)));
    try {
      await Promise.all(
        files.map((file, i) => gate.run(owner, () => pipeline.fetch(file, either, fetched.#charges[i]))),
      );
      return fetched;
    } catch (error) {
      fetched[Symbol.dispose]();
      failed.abort();
      throw error;
    }
  }

  private constructor(charges: readonly Charge[]) {
    this.#charges = charges;
  }

  get bytes(): number {
    return this.#charges.reduce((sum, charge) => sum + charge.bytes, 0);
  }

  [Symbol.dispose](): void {
    for (const charge of this.#charges) charge[Symbol.dispose]();
  }
}
