/** Reads request bodies: their type, their size, their inputs. */
import { type InputList, ReadyInputs } from "../serving/input-list.ts";
import { badRequest, type InputDecoder, notUtf8, utf8 } from "./input-decoder.ts";
import type { LargeBodies } from "./large-bodies.ts";
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
    const bytes = await (length === undefined ? readChunks(request, maxBodyBytes) : readBytes(request));
    const { length: size } = bytes;
    const inputs =
      large === undefined || size <= LARGE_BYTES
        ? new ReadyInputs(decoder.body(utf8(bytes), maxInputs))
        : await large.read(bytes, maxInputs);
    return { inputs, bytes: size };
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

/** @returns undefined for a chunked body, which tells its size only by coming to its end */
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

async function readBytes(request: Request): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await request.arrayBuffer().catch(refuseIncomplete));
}

async function readChunks(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of request.body ?? []) {
      length += chunk.length;
      if (length > maxBytes) break;
      chunks.push(chunk);
    }
  } catch (error) {
    return refuseIncomplete(error);
  }
  if (length > maxBytes) throw tooLarge(maxBytes);
  // Not a Buffer, which may be a part of memory that others have other parts of: this is given away.
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
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
