/** Reads the bodies of requests: their type, their size, their bytes. */
import { SconceError } from "../../base/errors.ts";
import { type Body, HELD_PER_BYTE, LARGE_BYTES } from "../inputs/bodies.ts";
import { anything } from "../inputs/expected-kinds.ts";
import { type InputDecoder, utf8 } from "../inputs/input-decoder.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import { DECODER_BYTES, decoderOf, type Parts } from "./decoded-body.ts";
import { inputsOfForm } from "./form-body.ts";
import { boundaryOf } from "./form-parts.ts";
import { ProblemError } from "./problem.ts";
import type { Upload, Uploads } from "./uploads.ts";

export interface ReadBody {
  readonly body: Body;
  readonly bytes: number;
  /** For the body and for what is parsed of it. */
  readonly charge: Charge;
}

export interface BodyLimits {
  readonly maxBytes: number;
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
  /** Knows what the fields of a form are to be. */
  readonly decoder?: Pick<InputDecoder, "expected"> | undefined;
}

/**
 * Asks for the memory of a body before it reads a byte of it where its length is announced, and of each chunk as it comes where it is not.
 * What is left unread when a request is refused is read past by the listener, and held nowhere.
 *
 * @throws ProblemError 400, 408, 413 or 415; SconceError `body_invalid`, `queue_full`
 */
export async function readBody(request: Request, limits: BodyLimits): Promise<ReadBody> {
  const { memory, uploads } = limits;
  const boundary = checkMediaType(request.headers);
  const decoder = decoderOf(request.headers.get("content-encoding"));
  const announced = lengthOf(request, limits);
  // What a compressed body becomes is known at its end.
  const length = decoder === undefined ? announced : undefined;
  const charge = uploads.taken(() => memory.take("bodies", HELD_PER_BYTE * (length ?? 0)));
  if (charge === undefined) throw noRoom();
  try {
    if (boundary === undefined && length !== undefined && length <= LARGE_BYTES) {
      // Not `request.text()`, which replaces bytes that are not UTF-8 with U+FFFD.
      const reading = uploads.during(charge, length, (upload) => upload.part(request.bytes()));
      return { body: utf8(await reading.catch(refuseIncomplete)), bytes: length, charge };
    }
    const isAnnounced = length !== undefined;
    const { chunks, bytes } = await uploads.during(charge, 0, (upload) =>
      readChunks(request, { limits, upload, isAnnounced, decoder }),
    );
    if (boundary === undefined) return { body: chunks, bytes, charge };
    using places = memory.add("bodies", 0);
    const body = await inputsOfForm(chunks, boundary, limits.decoder?.expected ?? anything, (taken) => {
      if (!places.tryGrow(taken)) throw noRoom();
    });
    const madeBytes = typeof body === "string" ? body.length : body.reduce((sum, { length }) => sum + length, 0);
    if (!charge.tryGrow(HELD_PER_BYTE * Math.max(0, madeBytes - bytes))) throw noRoom();
    return { body, bytes: madeBytes, charge };
  } catch (error) {
    charge[Symbol.dispose]();
    throw error;
  }
}

/** @returns the boundary of a form; undefined for JSON */
function checkMediaType(headers: Headers): string | undefined {
  const given = headers.get("content-type");
  if (given === "application/json" || given?.split(";", 1)[0]?.trim().toLowerCase() === "application/json")
    return undefined;
  const boundary = given === null ? undefined : boundaryOf(given);
  if (boundary !== undefined) return boundary;
  const received = given === null ? "none" : JSON.stringify(given);
  throw unsupported(
    `expected the header Content-Type: application/json, or multipart/form-data with its boundary, received ${received}`,
  );
}

/** @returns undefined for a body in chunks, which tells its size only by coming to its end */
function lengthOf({ headers }: Request, limits: BodyLimits): number | undefined {
  const bytes = announcedBytes(headers);
  if (bytes !== undefined) checkSize(bytes, limits);
  return bytes;
}

/** Of a header that came twice Bun has made one, with a comma between two equal numbers. */
export function announcedBytes(headers: Headers): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number.parseInt(length, 10);
}

interface Chunked {
  readonly limits: BodyLimits;
  readonly upload: Upload;
  /** All of its bytes were charged before; else each is as it comes. */
  readonly isAnnounced: boolean;
  readonly decoder: ReturnType<typeof decoderOf>;
}

/** As a whole a large body would hold the loop for each time that its memory is moved to make it larger. */
async function readChunks(
  request: Request,
  { limits, upload, isAnnounced, decoder }: Chunked,
): Promise<{ chunks: Uint8Array<ArrayBuffer>[]; bytes: number }> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const { body } = request;
  const take = (bytes: number) => {
    if (!limits.uploads.taken(() => upload.charge.tryGrow(bytes))) throw noRoom();
  };
  const encoded: Parts | undefined = body?.getReader();
  const reader = encoded && (decoder?.(encoded, take) ?? encoded);
  try {
    while (reader !== undefined) {
      const { value } = await upload.part(reader.read()).catch(refuseIncomplete);
      if (value === undefined) break;
      upload.bytes += value.length;
      checkSize(upload.bytes, limits);
      if (!isAnnounced) take(HELD_PER_BYTE * value.length);
      chunks.push(value);
      // Of a client that sends fast enough chunks would follow one another for as long as it sends.
      await new Promise((resolve) => setImmediate(resolve));
    }
  } catch (error) {
    // Not awaited: a client that sends nothing more would hold the answer back.
    reader?.cancel().catch(() => {});
    throw error;
  }
  if (decoder !== undefined && reader !== undefined) upload.charge.grow(-DECODER_BYTES);
  return { chunks, bytes: upload.bytes };
}

function noRoom(): SconceError {
  return new SconceError(
    "queue_full",
    "the server's memory is taken by other requests (--max-memory); try again later",
    { refusal: "memory" },
  );
}

function refuseIncomplete(cause: unknown): never {
  if (cause instanceof ProblemError || cause instanceof SconceError) throw cause;
  const detail = "the body ended before the length that was announced for it";
  throw new ProblemError({ status: 400, code: "body_incomplete", detail }, { cause });
}

function unsupported(detail: string): ProblemError {
  return new ProblemError({ status: 415, code: "unsupported_media_type", detail });
}

/** A body alone is taken as long as it needs no more than the whole account. @throws ProblemError 413 */
function checkSize(bytes: number, { maxBytes, memory }: BodyLimits): void {
  const heldBytes = Math.floor(memory.maxBytes / HELD_PER_BYTE);
  if (bytes <= Math.min(maxBytes, heldBytes)) return;
  const limit = heldBytes < maxBytes ? `${heldBytes} bytes (--max-memory)` : `${maxBytes} bytes (--max-body-bytes)`;
  throw new ProblemError({ status: 413, code: "body_too_large", detail: `a body may have at most ${limit}` });
}
