/** Bodies of answers, small and large. */
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { LargeText } from "../predictions/large-text.ts";
import type { ModelVersion } from "../predictions/model-version.ts";
import type { RequestContext } from "./request.ts";

/** Longer answers are streamed. Shorter ones fit into the socket's buffer. */
export const LARGE_ANSWER_LENGTH = 64 * 1024;

/** Bun 1.4 sends an asynchronous answer in one piece if its body is shorter than this. */
const SENT_AT_ONCE = 16 * 1024 - 1024;

/**
 * Bun makes a system call for each header of a longer answer, unless the body is a direct stream: five times the work for 20 kB. A stream
 * has no `Content-Length`.
 */
export function bodyOf(
  text: string,
  context: Pick<RequestContext, "answerBytes">,
): string | ReadableStream<Uint8Array> {
  if (text.length < SENT_AT_ONCE) return text;
  context.answerBytes = Buffer.byteLength(text);
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: "direct",
    pull(controller) {
      controller.write(text);
      controller.end();
    },
  };
  return new ReadableStream(source);
}

interface SharedText {
  readonly text: LargeText;
  readonly charge: Charge;
  readers: number;
}

/** Streams large results. All clients that read the same result share one copy in memory, however slowly they read. */
export class LargeAnswers {
  readonly #memory: MemoryAccount;
  /** Texts with active readers, by path. A text belongs to an ended prediction and does not change. */
  readonly #shared = new Map<string, SharedText>();
  #lastTurn: Promise<unknown> = Promise.resolve();

  constructor(memory: MemoryAccount) {
    this.#memory = memory;
  }

  /** Whether memory allows an answer of this length. Always, if another client is reading the same path. */
  hasRoomFor(path: string, length: number): boolean {
    return this.#shared.has(path) || this.#memory.hasRoom("answers", length);
  }

  /** Streams a text that another client is reading. @returns undefined if no client is */
  join(
    path: string,
  ): { readonly body: ReadableStream<Uint8Array>; readonly model: ModelVersion | undefined } | undefined {
    const text = this.#shared.get(path)?.text;
    return text && { body: this.stream(path, () => text), model: text.model };
  }

  /**
   * Streams the bytes from `begin` to `end`. Allocation waits for the first read, since the client may have left. All streams together
   * send one piece per turn of the event loop, so that one fast connection does not delay other requests.
   *
   * @param open makes the text if no other client is reading this path
   */
  stream(path: string, open: () => LargeText, begin = 0, end = Infinity): ReadableStream<Uint8Array> {
    // Released after its call, since it refers to the record.
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

  /** Keeps a text for a client that reads it later. Disposing the return value frees it. The store may evict the record earlier. */
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
      // The store charges the record. This charge is for the encoded bytes.
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
