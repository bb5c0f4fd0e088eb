/** Decodes the body of a request, or the same body read from a store, into inputs. */
import { type InputDecoder, type InputValues, utf8 } from "./input-decoder.ts";
import { type InputList, ReadyInputs } from "./input-list.ts";
import type { LargeBodies } from "./large-bodies.ts";

/** Larger bodies are parsed on another thread: parsing them would block the event loop for milliseconds. */
export const LARGE_BYTES = 256 * 1024;

/** Memory charged for each byte of a body: the byte itself, and about two bytes of decoded inputs. */
export const HELD_PER_BYTE = 3;

/** A JSON list of inputs: its text, or the chunks received. Decoding transfers the chunks' memory. */
export type Body = string | readonly Uint8Array<ArrayBuffer>[];

export interface DecodedBody {
  readonly inputs: InputList;
  /** A function makes the list on demand. */
  readonly body: string | Uint8Array<ArrayBuffer> | (() => string);
}

export class Bodies implements Disposable {
  readonly #decoder: InputDecoder;
  readonly #large: LargeBodies | undefined;

  /** @param large parses large bodies on other threads; by default this thread parses them */
  constructor(decoder: InputDecoder, large?: LargeBodies) {
    this.#decoder = decoder;
    this.#large = large;
  }

  /**
   * Returns without a promise for a small body.
   * @throws SconceError `body_invalid` or `inputs_invalid`
   */
  decode(body: Body | InputValues, maxInputs: number): DecodedBody | Promise<DecodedBody> {
    if (typeof body !== "string" && "count" in body) {
      const inputs = new ReadyInputs(this.#decoder.values(body, maxInputs));
      return { inputs, body: () => JSON.stringify(body.values()) };
    }
    if (typeof body !== "string") {
      const bytes = body.reduce((sum, { length }) => sum + length, 0);
      if (bytes > LARGE_BYTES && this.#large !== undefined) return this.#large.read(body, maxInputs);
    }
    const text = typeof body === "string" ? body : utf8(Bun.concatArrayBuffers([...body], Infinity, true));
    return { inputs: new ReadyInputs(this.#decoder.body(text, maxInputs)), body: text };
  }

  [Symbol.dispose](): void {
    this.#large?.[Symbol.dispose]();
  }
}
