/** Reads the body of a request: checks its media type and size, counts its memory, decompresses it, and converts forms to JSON. */
import { SconceError } from "../base/errors.ts";
import { TURN_BYTES } from "../base/loop-turns.ts";
import { boundaryOf } from "../base/multipart.ts";
import { type Body, HELD_PER_BYTE, LARGE_BYTES } from "../pipeline/inputs/body.ts";
import { anything } from "../pipeline/inputs/expected-kinds.ts";
import { inputsOfForm } from "../pipeline/inputs/form-body.ts";
import { type InputDecoder, utf8 } from "../pipeline/inputs/input-decoder.ts";
import { type Charge, memoryFull } from "../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { ProblemError } from "./problem.ts";
import { incompleteBody, type Upload, type Uploads } from "./uploads.ts";

/** The format of `DecompressionStream` for each Content-Encoding. */
const formats: ReadonlyMap<string, Bun.CompressionFormat> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
  ["br", "brotli"],
  ["zstd", "zstd"],
]);
export const contentEncodings = ["gzip", "deflate", "br", "zstd", "identity"] as const;

/**
 * Memory of a decoder without its input, its output and its window. zstd and Brotli measured 63 kB before the first byte of content. A window has no
 * more bytes than the content, whose memory is counted.
 */
export const DECODER_BYTES = 128 * 1024;

export interface ReadBody {
  readonly body: Body;
  readonly bytes: number;
  /** Memory counted for the body and for the inputs parsed from it. Disposing it frees the memory. */
  readonly charge: Charge;
}

export interface ReadBytes extends Omit<ReadBody, "body"> {
  readonly body: Uint8Array;
}

export interface BodyLimits {
  readonly maxBytes: number;
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
}

/**
 * Reads a body as JSON text without parsing it, and converts a form to JSON. Counts its memory against --max-memory: before reading if the length is
 * known, else with each chunk.
 * @param decoder has the schema of the inputs, which gives the types of form fields. Without it, form fields may have any type
 * @throws ProblemError 400, 408, 413 or 415; SconceError `body_invalid`, `queue_full`
 */
export function readBody(
  request: Request,
  limits: BodyLimits,
  decoder?: Pick<InputDecoder, "expected">,
): Promise<ReadBody> {
  const boundary = checkMediaType(request.headers);
  return boundary === undefined ? readJson(request, limits) : readForm(request, limits, { boundary, decoder });
}

function readJson(request: Request, limits: BodyLimits): Promise<ReadBody> {
  const length = smallLengthOf(request.headers);
  return length === undefined ? readLarge(request, limits) : readSmall(request, limits, length, jsonOf);
}

/** utf8() refuses invalid UTF-8. `request.text()` would replace it by U+FFFD. */
function jsonOf(bytes: Uint8Array<ArrayBuffer>): Body {
  return bytes.length > TURN_BYTES ? [bytes] : utf8(bytes);
}

async function readForm(
  request: Request,
  limits: BodyLimits,
  { boundary, decoder }: { readonly boundary: string; readonly decoder: Pick<InputDecoder, "expected"> | undefined },
): Promise<ReadBody> {
  const { body: parts, bytes, charge } = await receive(request, limits);
  try {
    const body = await inputsOfForm(parts, boundary, decoder?.expected ?? anything);
    const jsonBytes = typeof body === "string" ? body.length : body.reduce((sum, { length }) => sum + length, 0);
    charge.mustGrow(HELD_PER_BYTE * Math.max(0, jsonBytes - bytes));
    return { body, bytes: jsonBytes, charge };
  } catch (error) {
    charge[Symbol.dispose]();
    if (!(error instanceof SyntaxError)) throw error;
    throw new ProblemError({ code: "body_unreadable", detail: error.message }, { cause: error });
  }
}

/** Reads a body of any media type, without converting forms. @throws ProblemError 400, 408, 413 or 415; SconceError `queue_full` */
export async function readBytes(request: Request, limits: BodyLimits): Promise<ReadBytes> {
  const { body: chunks, bytes, charge } = await receive(request, limits);
  const [only, ...others] = chunks;
  const body = only !== undefined && others.length === 0 ? only : Bun.concatArrayBuffers(chunks, Infinity, true);
  return { body, bytes, charge };
}

interface Received<T> {
  readonly body: T;
  readonly bytes: number;
  readonly charge: Charge;
}

/** The bytes of a small body. Undefined for a large body, and for a chunked or compressed body, whose length is unknown. */
function smallLengthOf(headers: Headers): number | undefined {
  const length = headers.has("content-encoding") ? undefined : announcedBytes(headers);
  return length !== undefined && length <= LARGE_BYTES ? length : undefined;
}

/** Charges a body of known length. Drops slow uploads until the account has room. */
function chargeOf(length: number, { memory, uploads }: BodyLimits): Charge {
  const bytes = HELD_PER_BYTE * length;
  const charge = memory.take("bodies", bytes) ?? uploads.withRoom(() => memory.take("bodies", bytes));
  if (charge === undefined) throw memoryFull();
  return charge;
}

/** Reads a body of known length. @param made makes the result of the bytes */
async function readSmall<T>(
  request: Request,
  limits: BodyLimits,
  length: number,
  made: (bytes: Uint8Array<ArrayBuffer>) => T,
): Promise<Received<T>> {
  const { memory, uploads } = limits;
  checkSize(length, limits);
  const charge = chargeOf(length, limits);
  // An upload costs a small prediction a hundredth of its time. While most memory is free, none needs to be dropped.
  const upload = memory.isMostlyFree ? undefined : uploads.begin(charge, length);
  try {
    const reading = request.arrayBuffer();
    const content = await (upload === undefined ? reading : upload.untilDropped(reading));
    return { body: made(new Uint8Array(content)), bytes: length, charge };
  } catch (error) {
    charge[Symbol.dispose]();
    throw upload === undefined && !(error instanceof SconceError) ? incompleteBody(error) : error;
  } finally {
    if (upload !== undefined) uploads.end(upload);
  }
}

/** Reads a body into a list of chunks. */
async function readLarge(request: Request, limits: BodyLimits): Promise<Received<Uint8Array<ArrayBuffer>[]>> {
  const format = formatOf(request.headers.get("content-encoding"));
  const announced = announcedBytes(request.headers);
  if (announced !== undefined) checkSize(announced, limits);
  // A compressed body's Content-Length is the compressed length. The decompressed length is unknown.
  const length = format === undefined ? announced : undefined;
  const charge = chargeOf(length ?? 0, limits);
  const upload = limits.uploads.begin(charge, 0);
  try {
    const body = await readChunks(request, { limits, upload, isCharged: length !== undefined, format });
    return { body, bytes: upload.bytes, charge };
  } catch (error) {
    charge[Symbol.dispose]();
    throw error;
  } finally {
    limits.uploads.end(upload);
  }
}

/** Reads the bytes of a small body, or the chunks of another. */
function receive(request: Request, limits: BodyLimits): Promise<Received<Uint8Array<ArrayBuffer>[]>> {
  const length = smallLengthOf(request.headers);
  return length === undefined ? readLarge(request, limits) : readSmall(request, limits, length, (bytes) => [bytes]);
}

/**
 * Checks the Content-Type. A JSON body may have none, or `text/plain`, which `fetch` sets for a string body by default.
 * @returns the boundary of a form; undefined for JSON
 * @throws ProblemError 415
 */
function checkMediaType(headers: Headers): string | undefined {
  const given = headers.get("content-type");
  if (given === null || given === "application/json") return undefined;
  const type = given.split(";", 1)[0]?.trim().toLowerCase();
  if (type === "application/json" || type === "text/plain" || type === "") return undefined;
  const boundary = boundaryOf(given);
  if (boundary !== undefined) return boundary;
  // curl -d sends application/x-www-form-urlencoded by default.
  const hint =
    type === "application/x-www-form-urlencoded" ? "; with curl, add -H 'Content-Type: application/json'" : "";
  const detail = `expected the header Content-Type: application/json, or multipart/form-data with its boundary, received ${JSON.stringify(given)}${hint}`;
  throw new ProblemError({ code: "unsupported_media_type", detail });
}

/** The Content-Length in bytes; undefined for a chunked body. For two equal headers Bun gives `5, 5`, of which parseInt reads the first number. */
export function announcedBytes(headers: Headers): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number.parseInt(length, 10);
}

interface ChunkOptions {
  readonly limits: BodyLimits;
  readonly upload: Upload;
  /** Whether the memory of the whole body is counted before the first chunk. */
  readonly isCharged: boolean;
  readonly format: Bun.CompressionFormat | undefined;
}

/**
 * Reads a large body, or a body of unknown length, into a list of chunks, and decompresses it. Growing one buffer would copy the bytes many times and
 * block the event loop.
 */
async function readChunks(
  request: Request,
  { limits, upload, isCharged, format }: ChunkOptions,
): Promise<Uint8Array<ArrayBuffer>[]> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const { body } = request;
  const grow = (bytes: number) => {
    if (!limits.uploads.withRoom(() => upload.charge.tryGrow(bytes))) throw memoryFull();
  };
  const content = format === undefined ? body : body?.pipeThrough(new DecompressionStream(format));
  const reader = content?.getReader();
  try {
    if (format !== undefined) grow(DECODER_BYTES);
    while (reader !== undefined) {
      const { value } = await upload.untilDropped(reader.read(), format);
      if (value === undefined) break;
      upload.bytes += value.length;
      checkSize(upload.bytes, limits);
      if (!isCharged) grow(HELD_PER_BYTE * value.length);
      chunks.push(value);
      // Yields to other requests after each chunk, since the chunks of a fast client are always ready.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch (error) {
    // The error answer does not wait for the cancellation, which settles only after the client sends more.
    reader?.cancel().catch(() => {});
    throw error;
  }
  if (format !== undefined) upload.charge.grow(-DECODER_BYTES);
  return chunks;
}

/** The format of a compressed body; undefined if the body is not compressed. @throws ProblemError 415 for an unknown Content-Encoding */
function formatOf(encoding: string | null): Bun.CompressionFormat | undefined {
  const name = encoding?.trim().toLowerCase() ?? "identity";
  const format = formats.get(name);
  if (format !== undefined || name === "identity") return format;
  const known = contentEncodings.join(", ");
  const detail = `expected one Content-Encoding of ${known}, received ${JSON.stringify(encoding)}`;
  throw new ProblemError({ code: "unsupported_media_type", detail, headers: { "Accept-Encoding": known } });
}

/** Maximum bytes of JSON that the event loop parses. Larger lists of inputs are parsed on threads. */
export const MAX_MESSAGE_BYTES = 8 * 2 ** 20;

/**
 * Refuses a body above --max-body-bytes, or too large for the whole memory of the server: such a request can never succeed.
 * @throws ProblemError 413
 */
function checkSize(bytes: number, limits: BodyLimits): void {
  const heldBytes = Math.floor(limits.memory.maxBytes / HELD_PER_BYTE);
  if (bytes <= heldBytes && bytes <= limits.maxBytes) return;
  if (heldBytes < limits.maxBytes) throw bodyTooLarge(`${heldBytes} bytes (--max-memory)`);
  throw limits.maxBytes === MAX_MESSAGE_BYTES
    ? messageTooLarge()
    : bodyTooLarge(`${limits.maxBytes} bytes (--max-body-bytes)`);
}

export function messageTooLarge(): ProblemError {
  return bodyTooLarge(`${MAX_MESSAGE_BYTES} bytes of JSON here; send fewer inputs at once, or use POST /predictions`);
}

function bodyTooLarge(limit: string): ProblemError {
  return new ProblemError({ code: "body_too_large", detail: `a body may have at most ${limit}` });
}
