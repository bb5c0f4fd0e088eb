/** Large results on their way to clients: one copy in memory for all who read one at the same time, however slow they are. */
import { SconceError } from "../../base/errors.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { LargeText } from "../predictions/large-text.ts";
import type { EndedRecord } from "../predictions/record.ts";
import type { Family } from "./families.ts";
import { largeRecord } from "./record-json.ts";

/** Smaller ones fit into the buffers of a connection. */
export const LARGE_ANSWER_LENGTH = 64 * 1024;

interface Shared {
  readonly text: LargeText;
  readonly charge: Charge;
  readers: number;
}

export class LargeAnswers {
  readonly #memory: MemoryAccount;
  /** What is being read, by its path: of ended records, which do not change any more. */
  readonly #shared = new Map<string, Shared>();
  /** The turn of the event loop of the piece that was asked for last. */
  #lastTurn: Promise<unknown> = Promise.resolve();

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
    return shared && this.part(`${path}/${id}`, () => shared.text);
  }

  /** The JSON text of a record. */
  stream(record: EndedRecord, family: Family): ReadableStream<Uint8Array> {
    return this.part(`${family.path}/${record.id}`, () => largeRecord(record, family));
  }

  /**
   * A part of what a path always has. Nothing is held before the first byte is asked for: a client may have left by then. In each turn of the
   * event loop one piece is sent, whoever reads it: a connection that takes all of ten megabytes at once would hold up everybody.
   * @param open makes the whole where nobody else is reading it
   */
  part(path: string, open: () => LargeText, begin = 0, end = Infinity): ReadableStream<Uint8Array> {
    // Let go of once it was called: it may hold the record.
    let opening: (() => LargeText) | undefined = open;
    let shared: Shared | undefined;
    // The piece that is next, and where it begins.
    let [next, at] = [0, 0];
    let hasLeft = false;
    const leave = () => {
      hasLeft = true;
      if (shared !== undefined) this.#leave(path, shared);
      shared = undefined;
      opening = undefined;
    };
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      await this.#turn();
      if (hasLeft) return;
      if (opening !== undefined) shared = this.#join(path, opening);
      opening = undefined;
      for (let bytes = shared?.text.bytes(next); bytes !== undefined && at < end; bytes = shared?.text.bytes(next)) {
        next += 1;
        const wanted = bytes.subarray(Math.max(0, begin - at), end - at);
        at += bytes.length;
        if (wanted.length > 0) return controller.enqueue(wanted);
      }
      leave();
      controller.close();
    };
    return new ReadableStream({ pull, cancel: leave }, { highWaterMark: 0 });
  }

  /** Counts what is there for a reader that takes it later, or never, until this is disposed: the store may have forgotten it by then. */
  hold(record: EndedRecord, family: Family): Disposable {
    const path = `${family.path}/${record.id}`;
    const held = new DisposableStack();
    held.adopt(
      this.#join(path, () => largeRecord(record, family)),
      (shared) => this.#leave(path, shared),
    );
    return held;
  }

  #turn(): Promise<unknown> {
    this.#lastTurn = this.#lastTurn.then(() => new Promise((resolve) => setImmediate(resolve)));
    return this.#lastTurn;
  }

  #join(path: string, open: () => LargeText): Shared {
    let shared = this.#shared.get(path);
    if (shared === undefined) {
      const text = open();
      // Beside what it was made of, which may be forgotten meanwhile, there are the bytes of what was sent.
      shared = { text, charge: this.#memory.add("answers", text.length), readers: 0 };
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
