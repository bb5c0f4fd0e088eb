/** Large results on their way to clients: one copy in memory for all who read one at the same time, however slow they are. */
import { SconceError } from "../errors.ts";
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
  /** What is being read, by its path: of ended records, which do not change any more. */
  readonly #shared = new Map<string, Shared>();

  constructor(memory: MemoryAccount) {
    this.#memory = memory;
  }

  /** Whether there is room for one of this length, or others are reading it. */
  hasRoomFor(path: string, length: number): boolean {
    return this.#shared.has(path) || this.#memory.hasRoom("answers", length);
  }

  /** The JSON text of a record that others are reading. */
  streamOf(id: string, { path }: Family): ReadableStream<Uint8Array> | undefined {
    const shared = this.#shared.get(`${path}/${id}`);
    return shared && this.part(`${path}/${id}`, () => shared.bytes);
  }

  /** The JSON text of a record. */
  stream(record: EndedRecord, family: Family): ReadableStream<Uint8Array> {
    return this.part(`${family.path}/${record.id}`, () => new TextEncoder().encode(recordJson(record, family)));
  }

  /**
   * A part of what a path always has. Nothing is held before the first byte is asked for: a client may have left by then.
   * @param encode makes the whole where nobody else is reading it
   */
  part(path: string, encode: () => Uint8Array, begin = 0, end = Infinity): ReadableStream<Uint8Array> {
    // Let go of once it was called: it may hold the record.
    let encoding: (() => Uint8Array) | undefined = encode;
    let shared: Shared | undefined;
    let at = begin;
    const leave = () => {
      if (shared !== undefined) this.#leave(path, shared);
      shared = undefined;
      encoding = undefined;
    };
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
      if (encoding !== undefined) shared = this.#join(path, encoding);
      encoding = undefined;
      if (shared === undefined) return;
      const { bytes } = shared;
      controller.enqueue(bytes.subarray(at, Math.min(at + SLICE_BYTES, end)));
      at += SLICE_BYTES;
      if (at < Math.min(bytes.length, end)) return;
      leave();
      controller.close();
    };
    return new ReadableStream({ pull, cancel: leave }, { highWaterMark: 0 });
  }

  #join(path: string, encode: () => Uint8Array): Shared {
    let shared = this.#shared.get(path);
    if (shared === undefined) {
      const bytes = encode();
      // What they were made of.
      this.#memory.dropped(bytes.length);
      shared = { bytes, charge: this.#memory.add("answers", bytes.length), readers: 0 };
      this.#shared.set(path, shared);
    }
    shared.readers += 1;
    return shared;
  }

  #leave(path: string, shared: Shared): void {
    shared.readers -= 1;
    if (shared.readers > 0) return;
    this.#shared.delete(path);
    shared.charge[Symbol.dispose]();
  }
}

/** The refusal of one that there is no room for. */
export function noMemory(): SconceError {
  const message = "the server's memory is taken by other requests (--max-memory); try again later";
  return new SconceError("queue_full", message, { refusal: "memory" });
}
