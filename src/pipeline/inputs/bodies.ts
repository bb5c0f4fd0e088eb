/** Decodes the body of a request into inputs. */
import { type Body, type DecodedBody, LARGE_BYTES, type Take, valueBytes } from "./body.ts";
import { type InputDecoder, type InputValues, utf8 } from "./input-decoder.ts";
import { ReadyInputs } from "./input-list.ts";
import { sizeOfJson } from "./json-size.ts";
import type { LargeBodies } from "./large-bodies.ts";
import { inTurn, TURN_BYTES } from "./loop-turns.ts";

export class Bodies implements Disposable {
  readonly #decoder: InputDecoder;
  readonly #large: LargeBodies | undefined;

  /** @param large checks large bodies on other threads; undefined: this thread parses and checks them */
  constructor(decoder: InputDecoder, large?: LargeBodies) {
    this.#decoder = decoder;
    this.#large = large;
  }

  /**
   * Decodes a body. Returns no promise for a small body, because a promise would delay small predictions.
   * @param take counts the memory of parsed values beyond `HELD_PER_BYTE`
   * @throws SconceError `body_invalid` or `inputs_invalid`; the error of `take`
   */
  decode(body: Body | InputValues, maxInputs: number, take: Take): DecodedBody | Promise<DecodedBody> {
    if (typeof body === "string") {
      if (body.length > TURN_BYTES) return this.#inTurn(new TextEncoder().encode(body), maxInputs, take);
      return { inputs: new ReadyInputs(this.#decoder.body(body, maxInputs)), body };
    }
    if ("count" in body) {
      return inTurn(() => {
        const inputs = new ReadyInputs(this.#decoder.values(body, maxInputs));
        return { inputs, body: () => JSON.stringify(body.values()) };
      });
    }
    const bytes = body.reduce((sum, { length }) => sum + length, 0);
    if (bytes > LARGE_BYTES && this.#large !== undefined) return this.#large.read(body, maxInputs, take);
    return this.#inTurn(Bun.concatArrayBuffers([...body], Infinity, true), maxInputs, take);
  }

  #inTurn(bytes: Uint8Array, maxInputs: number, take: Take): Promise<DecodedBody> {
    return inTurn(() => {
      take(valueBytes(sizeOfJson(bytes), bytes.length));
      const text = utf8(bytes);
      return { inputs: new ReadyInputs(this.#decoder.body(text, maxInputs)), body: text };
    });
  }

  [Symbol.dispose](): void {
    this.#large?.[Symbol.dispose]();
  }
}
