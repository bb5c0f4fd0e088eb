/** Reads, parses and checks the JSON messages of the APIs. The event loop parses them, so their size and number of values have limits. */
import type { z } from "zod";
import { COST_RULE, MAX_COST, sizeOfJson } from "../../base/json-text.ts";
import { inTurn, TURN_BYTES } from "../../base/loop-turns.ts";
import { valueBytes } from "../../pipeline/inputs/body.ts";
import { parseJson, utf8 } from "../../pipeline/inputs/input-decoder.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { MAX_MESSAGE_BYTES, messageTooLarge, type ReadBody, readBytes } from "../body-reader.ts";
import type { HttpOptions } from "../options.ts";
import { ProblemError } from "../problem.ts";
import type { Uploads } from "../uploads.ts";

export interface MessageOptions {
  readonly memory: MemoryAccount;
  readonly uploads: Uploads;
  readonly config: Pick<HttpOptions, "maxBodyBytes">;
}

/** A message, with the charge for its memory. */
export interface Message<T> extends Omit<ReadBody, "body"> {
  readonly value: T;
}

/**
 * Reads a body of JSON, or of JSON and binary data.
 * @param headerLength the number of bytes of the JSON before binary data, as a header says; null if the whole body is JSON
 * @param read converts the value in the turn of the event loop that parses it
 * @throws ProblemError 400, 408 or 413; SconceError `body_invalid`, `queue_full`; errors of `read`
 */
export async function readMessage<T>(
  raw: Request,
  { memory, uploads, config }: MessageOptions,
  read: (value: unknown, binary: Uint8Array) => T,
  headerLength: string | null = null,
): Promise<Message<T>> {
  const most = headerLength === null ? MAX_MESSAGE_BYTES : Number.POSITIVE_INFINITY;
  const limits = { maxBytes: Math.min(config.maxBodyBytes, most), memory, uploads };
  const { body, bytes, charge } = await readBytes(raw, limits);
  using releasing = new DisposableStack();
  releasing.use(charge);
  const length = headerLength === null ? body.length : Number(headerLength);
  if (headerLength !== null && (!/^\d+$/.test(headerLength) || length > body.length)) {
    const detail = `Inference-Header-Content-Length is ${headerLength}, and the body has ${body.length} bytes`;
    throw new ProblemError({ code: "bad_header", detail });
  }
  const json = body.subarray(0, length);
  const convert = () => read(parseJson(utf8(json)), body.subarray(length));
  const isLarge = json.length > TURN_BYTES;
  if (isLarge) {
    if (json.length > MAX_MESSAGE_BYTES) throw messageTooLarge();
    const size = sizeOfJson(json);
    if (size.cost > MAX_COST) throw tooManyValues();
    charge.mustGrow(valueBytes(size, json.length));
  }
  const value = isLarge ? await inTurn(convert) : convert();
  releasing.move();
  return { value, bytes, charge };
}

/** The error for a message whose values the event loop would parse or check too long. */
export function tooManyValues(): ProblemError {
  const detail = `JSON may have at most ${MAX_COST} values here (${COST_RULE}); send fewer inputs at once, or arrays as bytes`;
  return new ProblemError({ code: "body_too_large", detail });
}

/** Checks a message. @param faultAt makes the error for the first fault, from its path and its message */
export function checked<T>(
  schema: z.ZodType<T>,
  value: unknown,
  faultAt: (path: readonly string[], message: string) => Error,
): T {
  const { data, error } = schema.safeParse(value);
  if (error === undefined) return data;
  const { path = [], message = error.message } = error.issues[0] ?? {};
  throw faultAt(path.map(String), message);
}
