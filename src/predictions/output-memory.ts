/** Memory for the outputs of one prediction, from the first of them until its outcome is kept: within its own limit, and the server's. */
import type { Charge } from "../memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../memory/memory-account.ts";
import type { FailureReason } from "../metrics/labels.ts";
import type { LivePrediction } from "./live.ts";

export interface OutputMemoryOptions {
  readonly live: LivePrediction;
  readonly memory: MemoryAccount;
  /** Most bytes of all outputs together; a prediction with more fails. */
  readonly maxResultBytes: number;
}

export class OutputMemory implements Disposable {
  readonly #options: OutputMemoryOptions;
  #bytes = 0;
  #charge: Charge | undefined;

  constructor(options: OutputMemoryOptions) {
    this.#options = options;
  }

  /** @returns undefined where so many bytes of text were taken; else why not, for the prediction that ends with it */
  take(bytes: number): { readonly message: string; readonly reason: FailureReason } | undefined {
    const { live, memory } = this.#options;
    const maxBytes = Math.min(this.#options.maxResultBytes, memory.maxOutputBytes);
    this.#bytes += bytes;
    // What the model made is another copy.
    memory.dropped(bytes);
    if (this.#bytes > maxBytes) {
      const message = `The outputs have more than ${Math.floor(maxBytes)} bytes; send fewer inputs in one request`;
      return { message, reason: "size" };
    }
    this.#charge ??= memory.add("outputs", 0);
    const held = HELD_PER_OUTPUT_BYTE * bytes;
    if (!memory.hasRoom("outputs", held, this.#charge.bytes + live.charge.bytes)) {
      return {
        message: "The server's memory is taken by other requests (--max-memory); try again later",
        reason: "memory",
      };
    }
    this.#charge.grow(held);
    return undefined;
  }

  [Symbol.dispose](): void {
    // What a demo still makes for nobody is not counted any more.
    this.#charge ??= this.#options.memory.add("outputs", 0);
    this.#charge[Symbol.dispose]();
  }
}
