/** Sends large JSON texts and files in pieces. */
import type { Charge } from "../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { LargeText } from "../predictions/large-text.ts";

interface SharedText {
  readonly text: LargeText;
  readonly charge: Charge;
  readers: number;
}

/**
 * Sends large JSON texts and files in pieces. Clients that read the same path share one copy of the text in memory until the slowest client has read
 * it.
 */
export class LargeAnswers {
  readonly #memory: MemoryAccount;
  /** The texts that clients are reading now, or that hold() keeps, by path. A text does not change. */
  readonly #shared = new Map<string, SharedText>();
  #lastTurn: Promise<unknown> = Promise.resolve();

  constructor(memory: MemoryAccount) {
    this.#memory = memory;
  }

  /** Whether memory is free for an answer of `length` characters. True if the text of the path is in memory already, because clients share it. */
  hasRoomFor(path: string, length: number): boolean {
    return this.#shared.has(path) || this.#memory.hasRoom("answers", length);
  }

  /**
   * Streams the bytes of a text from `begin` to `end`. The first read creates the text, because many clients
   * disconnect before. All streams together send one piece per turn of the event loop, so that other requests run
   * between pieces.
   * @param path URL path of the answer; streams of one path share the text
   * @param open creates the text if it is not in memory already
   */
  stream(path: string, open: () => LargeText, begin = 0, end = Infinity): ReadableStream<Uint8Array> {
    // Cleared after its call, since the closure keeps the record of the prediction in memory.
    let opening: (() => LargeText) | undefined = open;
    let shared: SharedText | undefined;
    let [nextPiece, offset] = [0, 0];
    let isClosed = false;
    const close = () => {
      isClosed = true;
      if (shared !== undefined) this.#release(path, shared);
      shared = undefined;
      opening = undefined;
    };
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      await this.#turn();
      if (isClosed) return;
      if (opening !== undefined) shared = this.#share(path, opening);
      opening = undefined;
      for (let bytes = shared?.text.bytes(nextPiece); bytes !== undefined && offset < end; ) {
        nextPiece += 1;
        const wanted = bytes.subarray(Math.max(0, begin - offset), end - offset);
        offset += bytes.length;
        if (wanted.length > 0) return controller.enqueue(wanted);
        bytes = shared?.text.bytes(nextPiece);
      }
      close();
      controller.close();
    };
    return new ReadableStream({ pull, cancel: close }, { highWaterMark: 0 });
  }

  /** Keeps a text in memory for a client that reads it later, even if the store evicts the prediction. Disposing the result frees the text. */
  hold(path: string, open: () => LargeText): Disposable {
    const held = new DisposableStack();
    held.adopt(this.#share(path, open), (shared) => this.#release(path, shared));
    return held;
  }

  #turn(): Promise<unknown> {
    this.#lastTurn = this.#lastTurn.then(() => new Promise((resolve) => setImmediate(resolve)));
    return this.#lastTurn;
  }

  #share(path: string, open: () => LargeText): SharedText {
    let shared = this.#shared.get(path);
    if (shared === undefined) {
      const text = open();
      // Counts the memory of the encoded bytes. The store counts the memory of the prediction's record.
      shared = { text, charge: this.#memory.add("answers", text.length), readers: 0 };
      this.#shared.set(path, shared);
    }
    shared.readers += 1;
    return shared;
  }

  #release(path: string, shared: SharedText): void {
    shared.readers -= 1;
    if (shared.readers > 0) return;
    this.#shared.delete(path);
    shared.charge[Symbol.dispose]();
  }
}
