/** Memory for the outputs of one prediction, from the first of them until its outcome is kept: within its own limit, and the server's. */

import type { FailureReason } from "../../base/labels.ts";
import type { Charge } from "../memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../memory/memory-account.ts";
import type { LivePrediction } from "./live.ts";

/** Bytes of text that the outputs of one prediction have room for in any case: what was accepted ends, and by itself it holds about as much. */
const ALWAYS_BYTES = 4096;

export class OutputMemory implements Disposable {
  readonly #live: LivePrediction;
  readonly #memory: MemoryAccount;
  readonly #maxResultBytes: number;
  #bytes = 0;
  #charge: Charge | undefined;

  /** @param maxResultBytes most bytes of all outputs together; a prediction with more fails */
  constructor(live: LivePrediction, memory: MemoryAccount, maxResultBytes: number) {
    this.#live = live;
    this.#memory = memory;
    this.#maxResultBytes = maxResultBytes;
  }

  /** @returns undefined where so many bytes of text were taken; else why not, for the prediction that ends with it */
  take(bytes: number): { readonly message: string; readonly reason: FailureReason } | undefined {
    const memory = this.#memory;
    const { maxOutputBytes } = memory;
    const maxBytes = Math.min(this.#maxResultBytes, maxOutputBytes);
    this.#bytes += bytes;
    // What the model made is another copy.
    memory.dropped(bytes);
    if (this.#bytes > maxBytes) {
      const is = this.#live.count === 1 ? "The output has" : "The outputs have";
      const fix = this.#live.count === 1 ? "" : "; send fewer inputs in one request";
      const limit = maxBytes < maxOutputBytes ? "--max-result-bytes" : "--max-memory";
      return { message: `${is} more than ${Math.floor(maxBytes)} bytes (${limit})${fix}`, reason: "size" };
    }
    this.#charge ??= memory.add("outputs", 0);
    const held = HELD_PER_OUTPUT_BYTE * bytes;
    const isSmall = this.#bytes <= ALWAYS_BYTES;
    if (!isSmall && !memory.hasRoom("outputs", held) && !memory.hasRoom("outputs", held, this.#ownBytes)) {
      return {
        message: "The server's memory is taken by other requests (--max-memory); try again later",
        reason: "memory",
      };
    }
    this.#charge.grow(held);
    return undefined;
  }

  /** All that the prediction holds: its inputs are none of the others that it could wait for. */
  get #ownBytes(): number {
    const { charge, items } = this.#live;
    return (this.#charge?.bytes ?? 0) + charge.bytes + (items?.heldBytes ?? 0);
  }

  [Symbol.dispose](): void {
    // What a demo still makes for nobody is not counted any more.
    this.#charge ??= this.#memory.add("outputs", 0);
    this.#charge[Symbol.dispose]();
  }
}
