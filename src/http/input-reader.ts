/** Reads request bodies: their type, their size, their inputs. */

import { badRequest, type InputDecoder, notUtf8, utf8 } from "../inputs/input-decoder.ts";
import { type InputList, ReadyInputs } from "../inputs/input-list.ts";
import { joined } from "../inputs/joined.ts";
import type { LargeBodies } from "../inputs/large-bodies.ts";
import { ProblemError } from "./problem.ts";

export interface InputLimits {
  readonly maxBodyBytes: number;
  readonly maxInputs: number;
}

export interface Inputs {
  readonly inputs: InputList;
  /** Bytes of the body. */
  readonly bytes: number;
}

/** Beyond this, parsing would hold up everybody for more than a few milliseconds. */
const LARGE_BYTES = 256 * 1024;

export interface InputReaderOptions extends InputLimits {
  readonly decoder: InputDecoder;
  /** Reads large bodies beside the JS thread; without it they are read here. */
  readonly large?: LargeBodies | undefined;
}

/** Reads request bodies that are JSON arrays of inputs. */
export class InputReader {
  readonly #options: InputReaderOptions;

  constructor(options: InputReaderOptions) {
    this.#options = options;
  }

  /** @throws ProblemError 400, 413, 415 or 422 */
  async read(request: Request): Promise<Inputs> {
    const { decoder, large, maxInputs, maxBodyBytes } = this.#options;
    checkMediaType(request.headers);
    const length = lengthOf(request, maxBodyBytes);
    if (length !== undefined && (large === undefined || length <= LARGE_BYTES)) {
      const text = await readText(request, length);
      return { inputs: new ReadyInputs(decoder.body(text, maxInputs)), bytes: length };
    }
    const { chunks, bytes } = await readChunks(request, maxBodyBytes);
    if (large !== undefined && bytes > LARGE_BYTES) return { inputs: await large.read(chunks, maxInputs), bytes };
    return { inputs: new ReadyInputs(decoder.body(utf8(joined(chunks)), maxInputs)), bytes };
  }
}

function checkMediaType(headers: Headers): void {
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity") {
    throw new ProblemError({
      status: 415,
      title: "Unsupported media type",
      code: "unsupported_media_type",
      detail: `expected a body without Content-Encoding, received ${JSON.stringify(encoding)}`,
      headers: { "Accept-Encoding": "identity" },
    });
  }
  const given = headers.get("content-type");
  if (given === "application/json" || given?.split(";", 1)[0]?.trim().toLowerCase() === "application/json") return;
  throw new ProblemError({
    status: 415,
    title: "Unsupported media type",
    code: "unsupported_media_type",
    detail: `expected the header Content-Type: application/json, received ${given === null ? "none" : JSON.stringify(given)}`,
  });
}

/** @returns undefined for a body in chunks, which tells its size only by coming to its end */
function lengthOf({ headers }: Request, maxBytes: number): number | undefined {
  const length = headers.get("content-length");
  if (length === null) return undefined;
  if (Number(length) > maxBytes) throw tooLarge(maxBytes);
  return Number(length);
}

async function readText(request: Request, length: number): Promise<string> {
  const text = await request.text().catch(refuseIncomplete);
  // What was not UTF-8 was replaced, by something of another length.
  if (text.includes("\uFFFD") && Buffer.byteLength(text) !== length) throw notUtf8();
  return text;
}

interface Chunks {
  readonly chunks: readonly Uint8Array<ArrayBuffer>[];
  /** Of all together. */
  readonly bytes: number;
}

/** As a whole a large body would hold the loop for each time that its memory is moved to make it larger. */
async function readChunks(request: Request, maxBytes: number): Promise<Chunks> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.length;
      if (bytes > maxBytes) break;
      chunks.push(chunk);
    }
  } catch (error) {
    return refuseIncomplete(error);
  }
  if (bytes > maxBytes) throw tooLarge(maxBytes);
  return { chunks, bytes };
}

function refuseIncomplete(cause: unknown): never {
  throw badRequest("body_incomplete", "the body ended before the length that was announced for it", cause);
}

function tooLarge(maxBytes: number): ProblemError {
  return new ProblemError({
    status: 413,
    title: "Content too large",
    code: "body_too_large",
    detail: `a body may have at most ${maxBytes} bytes`,
  });
}
