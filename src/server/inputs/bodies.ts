/** From the body of a request, or the same body kept in a store, to inputs. */
import { type InputDecoder, utf8 } from "./input-decoder.ts";
import { type InputList, ReadyInputs } from "./input-list.ts";
import type { LargeBodies } from "./large-bodies.ts";

/** Beyond this, parsing would hold up everybody for more than a few milliseconds. */
export const LARGE_BYTES = 256 * 1024;

/** Bytes of memory that a byte of a body is counted with: itself, and about twice as much for its inputs. */
export const HELD_PER_BYTE = 3;

/** A JSON list of inputs: its text, or the chunks it came in, whose memory is given away. */
export type Body = string | readonly Uint8Array<ArrayBuffer>[];

export interface DecodedBody {
  readonly inputs: InputList;
  /** The body as one. */
  readonly body: string | Uint8Array<ArrayBuffer>;
}

export class Bodies implements Disposable {
  readonly #decoder: InputDecoder;
  readonly #large: LargeBodies | undefined;

  /** @param large reads large bodies beside the JS thread; without it they are read here */
  constructor(decoder: InputDecoder, large?: LargeBodies) {
    this.#decoder = decoder;
    this.#large = large;
  }

  /**
   * Answers at once, without a promise, where the body is small.
   * @throws SconceError `body_invalid` or `inputs_invalid`
   */
  decode(body: Body, maxInputs: number): DecodedBody | Promise<DecodedBody> {
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
