/** Memory for the outputs of one prediction, until its end: within the limit of a prediction and the limit of the server. */

import type { FailureReason } from "../../base/labels.ts";
import type { Charge } from "../memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../memory/memory-account.ts";
import type { LivePrediction } from "./live.ts";

/** Outputs up to this size always fit: an accepted prediction must be able to end, and it takes about as much memory itself. */
const ALWAYS_BYTES = 4096;

export class OutputMemory implements Disposable {
  readonly #live: LivePrediction;
  readonly #memory: MemoryAccount;
  readonly #maxResultBytes: number;
  #bytes = 0;
  #charge: Charge | undefined;

  /** @param maxResultBytes a prediction with more bytes of outputs fails */
  constructor(live: LivePrediction, memory: MemoryAccount, maxResultBytes: number) {
    this.#live = live;
    this.#memory = memory;
    this.#maxResultBytes = maxResultBytes;
  }

  /**
   * Charges the bytes of an output or a part.
   * @param own charge with an owner who disposes it; by default the charge until the end of the prediction
   * @returns undefined on success; else the failure of the prediction
   */
  take(bytes: number, own?: Charge): { readonly message: string; readonly reason: FailureReason } | undefined {
    const memory = this.#memory;
    const { maxOutputBytes } = memory;
    const maxBytes = Math.min(this.#maxResultBytes, maxOutputBytes);
    this.#bytes += bytes;
    // The output of the model is garbage now.
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
    (own ?? this.#charge).grow(held);
    return undefined;
  }

  /** Bytes of parts were dropped with their charge. */
  dropped(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Memory that the prediction holds already. An output fits if no other prediction holds memory. */
  get #ownBytes(): number {
    const { charge, items, parts } = this.#live;
    return (this.#charge?.bytes ?? 0) + (parts?.charge.bytes ?? 0) + charge.bytes + (items?.heldBytes ?? 0);
  }

  [Symbol.dispose](): void {
    // A demo may still produce outputs after its end. A disposed charge ignores them.
    this.#charge ??= this.#memory.add("outputs", 0);
    this.#charge[Symbol.dispose]();
  }
}
