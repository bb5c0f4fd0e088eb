/** Counts the memory of a prediction's outputs, and enforces the limit of one prediction and --max-memory. */

import type { FailureReason } from "../base/labels.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { LivePrediction } from "./live.ts";

/** Bytes of outputs that are accepted even when memory is full, so that accepted predictions can end. */
const ALWAYS_BYTES = 4096;

export class OutputMemory implements Disposable {
  readonly #live: LivePrediction;
  readonly #memory: MemoryAccount;
  readonly #maxResultBytes: number;
  #bytes = 0;
  #charge: Charge | undefined;

  constructor(live: LivePrediction, memory: MemoryAccount, maxResultBytes: number) {
    this.#live = live;
    this.#memory = memory;
    this.#maxResultBytes = maxResultBytes;
  }

  /**
   * Counts an output, or a piece of an output that the model yields early.
   * @param own charge of the pieces; by default the bytes are charged until the prediction ends
   * @returns undefined if the bytes fit; else why the prediction must fail
   */
  take(bytes: number, own?: Charge): { readonly message: string; readonly reason: FailureReason } | undefined {
    const memory = this.#memory;
    const { maxOutputBytes } = memory;
    const maxBytes = Math.min(this.#maxResultBytes, maxOutputBytes);
    this.#bytes += bytes;
    // Counts garbage: the output is JSON text now, and the model's output object is no longer used.
    memory.dropped(bytes);
    if (this.#bytes > maxBytes) {
      const is = this.#live.count === 1 ? "The output has" : "The outputs have";
      const fix = this.#live.count === 1 ? "" : "; send fewer inputs in one request";
      const limit = maxBytes < maxOutputBytes ? "the limit of one prediction" : "--max-memory";
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

  /** Subtracts dropped pieces from the size of the outputs. `PartLog.restart` frees their memory in the account. */
  dropped(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Bytes that this prediction holds. If they are all that is held, `hasRoom` finds room for any output. */
  get #ownBytes(): number {
    const { charge, items, parts } = this.#live;
    return (this.#charge?.bytes ?? 0) + (parts?.charge.bytes ?? 0) + charge.bytes + (items?.heldBytes ?? 0);
  }

  [Symbol.dispose](): void {
    // A demo may produce outputs after its end: a disposed charge ignores them, so the charge must exist.
    this.#charge ??= this.#memory.add("outputs", 0);
    this.#charge[Symbol.dispose]();
  }
}
