/** Large results on their way to clients: one copy in memory for all who read one at the same time, however slow they are. */
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { EndedRecord } from "../predictions/record.ts";
import type { Family } from "./families.ts";
import { recordJson } from "./record-json.ts";

/** Smaller ones fit into the buffers of a connection. */
export const LARGE_ANSWER_LENGTH = 64 * 1024;
/** Handed to a connection at a time. */
const SLICE_BYTES = 256 * 1024;

interface Shared {
  readonly bytes: Uint8Array;
  readonly charge: Charge;
  readers: number;
}

export class LargeAnswers {
  readonly #memory: MemoryAccount;
  /** Of records that are being read, by id: ended ones, which do not change any more. */
  readonly #shared = new Map<string, Shared>();

  constructor(memory: MemoryAccount) {
    this.#memory = memory;
  }

  /** The JSON text of a record. Nothing is held before the first byte is asked for: a client may have left by then. */
  stream(record: EndedRecord, family: Family): ReadableStream<Uint8Array> {
    let shared: Shared | undefined;
    let sent = 0;
    const end = () => {
      if (shared !== undefined) this.#leave(record.id, shared);
      shared = undefined;
    };
    const source = {
      pull: (controller: ReadableStreamDefaultController<Uint8Array>) => {
        shared ??= this.#join(record, family);
        const { bytes } = shared;
        controller.enqueue(bytes.subarray(sent, sent + SLICE_BYTES));
        sent += SLICE_BYTES;
        if (sent < bytes.length) return;
        end();
        controller.close();
      },
      cancel: end,
    };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  #join(record: EndedRecord, family: Family): Shared {
    let shared = this.#shared.get(record.id);
    if (shared === undefined) {
      const bytes = new TextEncoder().encode(recordJson(record, family));
      shared = { bytes, charge: this.#memory.add("answers", bytes.length), readers: 0 };
      this.#shared.set(record.id, shared);
    }
    shared.readers += 1;
    return shared;
  }

  #leave(id: string, shared: Shared): void {
    shared.readers -= 1;
    if (shared.readers > 0) return;
    this.#shared.delete(id);
    shared.charge[Symbol.dispose]();
  }
}
