/** Large results on their way to clients: one copy in memory for all who read one at the same time, however slow they are. */
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { LargeText } from "../predictions/large-text.ts";
import type { EndedRecord, Kind } from "../predictions/record.ts";
import type { Family } from "./families.ts";
import { largeRecord } from "./record-json.ts";

/** Smaller ones fit into the buffers of a connection. */
export const LARGE_ANSWER_LENGTH = 64 * 1024;

interface Shared {
  readonly kind: Kind;
  readonly text: LargeText;
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
    return shared?.kind === kind ? this.#stream(id, kind, () => shared.text) : undefined;
  }

  /** The JSON text of a record. Nothing is held before the first byte is asked for: a client may have left by then. */
  stream(record: EndedRecord, family: Family): ReadableStream<Uint8Array> {
    return this.#stream(record.id, record.kind, () => largeRecord(record, family));
  }

  #stream(id: string, kind: Kind, open: () => LargeText): ReadableStream<Uint8Array> {
    // Let go of once it was called: it may hold the record.
    let opening: (() => LargeText) | undefined = open;
    let shared: Shared | undefined;
    let sent = 0;
    const end = () => {
      if (shared !== undefined) this.#leave(id, shared);
      shared = undefined;
      opening = undefined;
    };
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      if (opening !== undefined) shared = this.#join(id, kind, opening);
      opening = undefined;
      const bytes = shared?.text.bytes(sent++);
      if (bytes !== undefined) return controller.enqueue(bytes);
      end();
      controller.close();
    };
    return new ReadableStream({ pull, cancel: end }, { highWaterMark: 0 });
  }

  #join(id: string, kind: Kind, open: () => LargeText): Shared {
    let shared = this.#shared.get(id);
    if (shared === undefined) {
      const text = open();
      // Beside the record, which may be forgotten meanwhile, there are the bytes of what was sent.
      shared = { kind, text, charge: this.#memory.add("answers", text.length), readers: 0 };
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
