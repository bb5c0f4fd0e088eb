/** The body of a request, and its decoding into inputs. */

import { type JsonSize, sizeOfJson } from "../../base/json-text.ts";
import { inTurn, TURN_BYTES } from "../../base/loop-turns.ts";
import type { Charge } from "../memory/charge.ts";
import { type InputDecoder, type InputValues, utf8 } from "./input-decoder.ts";
import { type InputList, ReadyInputs } from "./input-list.ts";
import { checkParts, LazyInputs } from "./large-body.ts";

/** Larger bodies are parsed in parts, since parsing them at once would block the event loop for milliseconds. */
export const LARGE_BYTES = 256 * 1024;

/** Bytes of memory to count for each byte of a body: the body itself, and about two bytes of decoded inputs. */
export const HELD_PER_BYTE = 3;

/** A JSON list of inputs, as text or as received chunks. Decoding may take over the memory of the chunks. */
export type Body = string | readonly Uint8Array<ArrayBuffer>[];

export interface DecodedBody {
  readonly inputs: InputList;
  /** The JSON list for stores, or a function that creates it. */
  readonly body: string | Uint8Array<ArrayBuffer> | (() => string);
}

/** Counts memory before it is used. `mustGrow` throws SconceError `queue_full` if there is none. */
type Take = Pick<Charge, "mustGrow">;

/** Memory of parsed values that the charge of a body does not include. */
export function valueBytes({ bytes }: Pick<JsonSize, "bytes">, length: number): number {
  return Math.max(0, bytes - (HELD_PER_BYTE - 1) * length);
}

/** Decodes the bodies of requests for one model. */
export class Bodies {
  readonly #decoder: InputDecoder;

  constructor(decoder: InputDecoder) {
    this.#decoder = decoder;
  }

  /**
   * Decodes a body. Returns no promise for a small body, because a promise would delay small predictions.
   * @param charge counts the memory of parsed values beyond `HELD_PER_BYTE`
   * @throws SconceError `body_invalid` or `inputs_invalid`; the error of the charge
   */
  decode(body: Body | InputValues, maxInputs: number, charge: Take): DecodedBody | Promise<DecodedBody> {
    if (typeof body === "string") {
      if (body.length > TURN_BYTES) return this.#inTurn(new TextEncoder().encode(body), maxInputs, charge);
      return { inputs: new ReadyInputs(this.#decoder.body(body, maxInputs)), body };
    }
    if ("count" in body) {
      return inTurn(() => {
        const inputs = new ReadyInputs(this.#decoder.values(body, maxInputs));
        return { inputs, body: () => JSON.stringify(body.values()) };
      });
    }
    const length = body.reduce((sum, chunk) => sum + chunk.length, 0);
    if (length > LARGE_BYTES) return this.#inParts(body, length, { maxInputs, charge });
    return this.#inTurn(Bun.concatArrayBuffers([...body], Infinity, true), maxInputs, charge);
  }

  #inTurn(bytes: Uint8Array, maxInputs: number, charge: Take): Promise<DecodedBody> {
    return inTurn(() => {
      charge.mustGrow(valueBytes(sizeOfJson(bytes), bytes.length));
      const text = utf8(bytes);
      return { inputs: new ReadyInputs(this.#decoder.body(text, maxInputs)), body: text };
    });
  }

  /** Joins and checks a large body in many turns of the event loop. The inputs are parsed again when they are read. */
  async #inParts(
    chunks: readonly Uint8Array<ArrayBuffer>[],
    length: number,
    { maxInputs, charge }: { readonly maxInputs: number; readonly charge: Take },
  ): Promise<DecodedBody> {
    const [first, ...others] = chunks;
    const bytes = first !== undefined && others.length === 0 ? first : await joined(chunks, length);
    const checking = checkParts(bytes, this.#decoder, { maxInputs });
    for (;;) {
      const { done, value } = await inTurn(() => checking.next());
      if (done !== true) continue;
      charge.mustGrow(valueBytes({ bytes: value.mostBytes }, length));
      return { inputs: new LazyInputs(bytes, value.parts, this.#decoder), body: bytes };
    }
  }
}

async function joined(chunks: readonly Uint8Array[], length: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    await inTurn(() => bytes.set(chunk, at));
    at += chunk.length;
  }
  return bytes;
}
