/** Reads the body of a request: checks its media type and size, counts its memory, decompresses it, and converts forms to JSON. */
import { type InRing, Ring } from "../../base/collections/ring.ts";
import { SconceError } from "../../base/errors.ts";
import { type Body, HELD_PER_BYTE, LARGE_BYTES } from "../inputs/bodies.ts";
import { anything } from "../inputs/expected-kinds.ts";
import { type InputDecoder, utf8 } from "../inputs/input-decoder.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import { type BodyChunks, DECODER_BYTES, decoderOf } from "./decoded-body.ts";
import { boundaryOf, inputsOfForm } from "./form-body.ts";
import { memoryFull, ProblemError } from "./problem.ts";

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
  /** Accepts every media type, and does not convert forms. */
  readonly isAnyMedia?: boolean;
  /** Has the schema of the inputs, which gives the types of form fields. Without it, form fields may have any type. */
  readonly decoder?: Pick<InputDecoder, "expected"> | undefined;
}

/**
 * Reads a body as JSON text without parsing it, and converts a form to JSON. Counts its memory against --max-memory: before reading if the length is
 * known, else with each chunk.
 * @throws ProblemError 400, 408, 413 or 415; SconceError `body_invalid`, `queue_full`
 */
export async function readBody(request: Request, limits: BodyLimits): Promise<ReadBody> {
  const boundary = limits.isAnyMedia === true ? undefined : checkMediaType(request.headers);
  const { chunks, bytes, charge } = await receive(request, limits);
  try {
    // utf8() refuses invalid UTF-8. `request.text()` would replace it by U+FFFD.
    if (boundary === undefined) return { body: chunks instanceof Uint8Array ? utf8(chunks) : chunks, bytes, charge };
    using formMemory = limits.memory.add("bodies", 0);
    const parts = chunks instanceof Uint8Array ? [new Uint8Array(chunks)] : chunks;
    const body = await inputsOfForm(parts, boundary, limits.decoder?.expected ?? anything, (added) => {
      if (!formMemory.tryGrow(added)) throw memoryFull();
    });
    const jsonBytes = typeof body === "string" ? body.length : body.reduce((sum, { length }) => sum + length, 0);
    if (!charge.tryGrow(HELD_PER_BYTE * Math.max(0, jsonBytes - bytes))) throw memoryFull();
    return { body, bytes: jsonBytes, charge };
  } catch (error) {
    charge[Symbol.dispose]();
    throw error;
  }
}

/** Reads a body of any media type, without converting forms. @throws ProblemError 400, 408, 413 or 415; SconceError `queue_full` */
export async function readBytes(request: Request, limits: BodyLimits): Promise<ReadBytes> {
  const { chunks, bytes, charge } = await receive(request, limits);
  const body = chunks instanceof Uint8Array ? chunks : Bun.concatArrayBuffers(chunks, Infinity, true);
  return { body, bytes, charge };
}

interface Received extends Omit<ReadBody, "body"> {
  /** A small body of known length is one array. Any other body is a list of chunks. */
  readonly chunks: Uint8Array | Uint8Array<ArrayBuffer>[];
}

async function receive(request: Request, limits: BodyLimits): Promise<Received> {
  const { memory, uploads } = limits;
  const decoder = decoderOf(request.headers.get("content-encoding"));
  const announced = announcedBytes(request.headers);
  if (announced !== undefined) checkSize(announced, limits);
  // A compressed body's Content-Length is the compressed length. The decompressed length is unknown.
  const length = decoder === undefined ? announced : undefined;
  const charge = uploads.withRoom(() => memory.take("bodies", HELD_PER_BYTE * (length ?? 0)));
  if (charge === undefined) throw memoryFull();
  const isSmall = length !== undefined && length <= LARGE_BYTES;
  const upload = uploads.begin(charge, isSmall ? length : 0);
  try {
    if (isSmall) return { chunks: await upload.untilDropped(request.bytes()), bytes: length, charge };
    const isCharged = length !== undefined;
    const { chunks, bytes } = await readChunks(request, { limits, upload, isCharged, decoder });
    return { chunks, bytes, charge };
  } catch (error) {
    charge[Symbol.dispose]();
    throw error;
  } finally {
    uploads.end(upload);
  }
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
  readonly decoder: ReturnType<typeof decoderOf>;
}

/**
 * Reads a large body, or a body of unknown length, into a list of chunks, and decompresses it. Growing one buffer would copy the bytes many times and
 * block the event loop.
 */
async function readChunks(
  request: Request,
  { limits, upload, isCharged, decoder }: ChunkOptions,
): Promise<{ chunks: Uint8Array<ArrayBuffer>[]; bytes: number }> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const { body } = request;
  const grow = (bytes: number) => {
    if (!limits.uploads.withRoom(() => upload.charge.tryGrow(bytes))) throw memoryFull();
  };
  const encoded: BodyChunks | undefined = body?.getReader();
  const reader = encoded && (decoder?.(encoded, grow) ?? encoded);
  try {
    while (reader !== undefined) {
      const { value } = await upload.untilDropped(reader.read());
      if (value === undefined) break;
      upload.bytes += value.length;
      checkSize(upload.bytes, limits);
      if (!isCharged) grow(HELD_PER_BYTE * value.length);
      chunks.push(value);
      // Yields to other requests after each chunk, since the chunks of a fast client are always ready.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch (error) {
    // Not awaited: the cancellation would settle only after the client sends more, and would delay the error answer.
    reader?.cancel().catch(() => {});
    throw error;
  }
  if (decoder !== undefined && reader !== undefined) upload.charge.grow(-DECODER_BYTES);
  return { chunks, bytes: upload.bytes };
}

/** Converts an error of reading the body: ProblemError 400 unless the error already has a code for the client. */
function incomplete(cause: unknown): unknown {
  if (cause instanceof ProblemError || cause instanceof SconceError) return cause;
  const detail = "the body ended before the length that was announced for it";
  return new ProblemError({ code: "body_incomplete", detail }, { cause });
}

/**
 * Refuses a body above --max-body-bytes, or too large for the whole memory of the server: such a request can never succeed.
 * @throws ProblemError 413
 */
function checkSize(bytes: number, { maxBytes, memory }: BodyLimits): void {
  const heldBytes = Math.floor(memory.maxBytes / HELD_PER_BYTE);
  if (bytes <= Math.min(maxBytes, heldBytes)) return;
  const limit = heldBytes < maxBytes ? `${heldBytes} bytes (--max-memory)` : `${maxBytes} bytes (--max-body-bytes)`;
  throw new ProblemError({ code: "body_too_large", detail: `a body may have at most ${limit}` });
}

/** When memory is full, the server drops uploads slower than this average rate. Each upload has five extra seconds. */
const MIN_BYTES_PER_SECOND = 32 * 1024;
const GRACE_MS = 5000;

export class Upload implements InRing<Upload> {
  ring: InRing<Upload>["ring"] = undefined;
  before: Upload | undefined = undefined;
  after: Upload | undefined = undefined;
  /** Bytes received so far. For a body that is read in one call, its Content-Length. */
  bytes: number;
  readonly charge: Charge;
  readonly beganAtMs: number;
  #refusal: ProblemError | undefined;
  #reject: ((refusal: ProblemError) => void) | undefined;

  constructor(charge: Charge, { bytes, beganAtMs }: { readonly bytes: number; readonly beganAtMs: number }) {
    this.charge = charge;
    this.bytes = bytes;
    this.beganAtMs = beganAtMs;
  }

  /**
   * Awaits `reading`, a read of the body.
   * @throws ProblemError 408 as soon as the server drops the upload for its slowness, 400 for an incomplete body
   */
  untilDropped<T>(reading: Promise<T>): Promise<T> {
    // Promise.race() would take five microseconds more.
    return new Promise((resolve, reject) => {
      reading.then(resolve, (cause: unknown) => reject(incomplete(cause)));
      if (this.#refusal === undefined) this.#reject = reject;
      else reject(this.#refusal);
    });
  }

  drop(): void {
    this.charge[Symbol.dispose]();
    const detail = `the body came at less than ${MIN_BYTES_PER_SECOND / 1024} kB/s while others waited for memory`;
    // Closes the connection, so that the client sends no more of the body.
    const headers = { Connection: "close" };
    this.#refusal = new ProblemError({ code: "body_too_slow", detail, headers });
    this.#reject?.(this.#refusal);
  }
}

export class Uploads {
  readonly #now: () => number;
  /** Bodies that are being received, the oldest first. */
  readonly #uploads = new Ring<Upload>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Begins an upload. Until end() is called, withRoom() may drop the upload if it is slow. @param bytes initial count of received bytes */
  begin(charge: Charge, bytes: number): Upload {
    const upload = new Upload(charge, { bytes, beganAtMs: this.#now() });
    this.#uploads.add(upload);
    return upload;
  }

  end(upload: Upload): void {
    this.#uploads.delete(upload);
  }

  /** Calls `take`, which reserves memory. While the result is falsy, drops the oldest slow upload and calls `take` again. */
  withRoom<T>(take: () => T): T {
    let result = take();
    if (result || this.#uploads.size === 0) return result;
    for (const upload of [...this.#uploads]) {
      if (result) return result;
      if (!this.#isTooSlow(upload)) continue;
      this.#uploads.delete(upload);
      upload.drop();
      result = take();
    }
    return result;
  }

  #isTooSlow({ bytes, beganAtMs }: Upload): boolean {
    return this.#now() - beganAtMs > GRACE_MS + (1000 * bytes) / MIN_BYTES_PER_SECOND;
  }
}
