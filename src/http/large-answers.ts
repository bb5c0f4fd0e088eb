/** Large results on their way to clients: one copy in memory for all who read one at the same time, however slow they are. */
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { EndedRecord, Kind } from "../predictions/record.ts";
import type { Family } from "./families.ts";
import { recordJson } from "./record-json.ts";

/** Smaller ones fit into the buffers of a connection. */
export const LARGE_ANSWER_LENGTH = 64 * 1024;
/** Handed to a connection at a time. */
const SLICE_BYTES = 256 * 1024;

interface Shared {
  readonly kind: Kind;
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

  /** Whether there is room for one more copy. */
  hasRoomFor({ outcome }: EndedRecord): boolean {
    return this.#memory.hasRoom("answers", outcome.members.length);
  }

  /** The JSON text of a record that others are reading. */
  streamOf(id: string, { kind }: Family): ReadableStream<Uint8Array> | undefined {
    const shared = this.#shared.get(id);
    return shared?.kind === kind ? this.#stream(id, kind, () => shared.bytes) : undefined;
  }

  /** The JSON text of a record. Nothing is held before the first byte is asked for: a client may have left by then. */
  stream(record: EndedRecord, family: Family): ReadableStream<Uint8Array> {
    return this.#stream(record.id, record.kind, () => new TextEncoder().encode(recordJson(record, family)));
  }

  #stream(id: string, kind: Kind, encode: () => Uint8Array): ReadableStream<Uint8Array> {
    // Let go of once it was called: it may hold the record.
    let encoding: (() => Uint8Array) | undefined = encode;
    let shared: Shared | undefined;
    let sent = 0;
    const end = () => {
      if (shared !== undefined) this.#leave(id, shared);
      shared = undefined;
      encoding = undefined;
    };
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      if (encoding !== undefined) shared = this.#join(id, kind, encoding);
      encoding = undefined;
      if (shared === undefined) return;
      const { bytes } = shared;
      controller.enqueue(bytes.subarray(sent, sent + SLICE_BYTES));
      sent += SLICE_BYTES;
      if (sent < bytes.length) return;
      end();
      controller.close();
    };
    return new ReadableStream({ pull, cancel: end }, { highWaterMark: 0 });
  }

  #join(id: string, kind: Kind, encode: () => Uint8Array): Shared {
    let shared = this.#shared.get(id);
    if (shared === undefined) {
      const bytes = encode();
      // The text that they were made of.
      this.#memory.dropped(bytes.length);
      shared = { kind, bytes, charge: this.#memory.add("answers", bytes.length), readers: 0 };
      this.#shared.set(id, shared);
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
