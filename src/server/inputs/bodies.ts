/** Decodes the body of a request into inputs. */
import { type InputDecoder, type InputValues, utf8 } from "./input-decoder.ts";
import { type InputList, ReadyInputs } from "./input-list.ts";
import type { LargeBodies } from "./large-bodies.ts";

/**
 * Larger bodies are checked on a worker thread, since parsing them at once would block the event loop for milliseconds.
 */
export const LARGE_BYTES = 256 * 1024;

/** Bytes of memory to count for each byte of a body: the body itself, and about two bytes of decoded inputs. */
export const HELD_PER_BYTE = 3;

/** A JSON list of inputs, as text or as received chunks. Decoding may transfer the chunks' memory to another thread. */
export type Body = string | readonly Uint8Array<ArrayBuffer>[];

/** The text of a body. @throws SconceError `body_invalid` if it is not UTF-8 */
export function textOf(body: Body): string {
  return typeof body === "string" ? body : utf8(Bun.concatArrayBuffers([...body], Infinity, true));
}

export interface DecodedBody {
  readonly inputs: InputList;
  /** The JSON list for stores, or a function that creates it. */
  readonly body: string | Uint8Array<ArrayBuffer> | (() => string);
}

export class Bodies implements Disposable {
  readonly #decoder: InputDecoder;
  readonly #large: LargeBodies | undefined;

  /** @param large checks large bodies on other threads; undefined: this thread parses and checks them */
  constructor(decoder: InputDecoder, large?: LargeBodies) {
    this.#decoder = decoder;
    this.#large = large;
  }

  /**
   * Decodes a body. Returns a promise only for a large body, because a promise would delay small predictions.
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
    const text = textOf(body);
    return { inputs: new ReadyInputs(this.#decoder.body(text, maxInputs)), body: text };
  }

  [Symbol.dispose](): void {
    this.#large?.[Symbol.dispose]();
  }
}
