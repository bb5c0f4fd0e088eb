/** Reads, parses and checks the JSON messages of the APIs. The event loop parses them, so their size and number of values have limits. */
import type { z } from "zod";
import { HELD_PER_BYTE, valueBytes } from "../../pipeline/inputs/body.ts";
import { parseJson, utf8 } from "../../pipeline/inputs/input-decoder.ts";
import { COST_RULE, MAX_COST, sizeOfJson } from "../../pipeline/inputs/json-text.ts";
import { inTurn, TURN_BYTES } from "../../pipeline/inputs/loop-turns.ts";
import { type Charge, memoryFull } from "../../pipeline/memory/charge.ts";
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

/** A message, and the memory that is counted for it. */
export interface Message<T> extends Omit<ReadBody, "body"> {
  readonly value: T;
}

/**
 * Reads a body that is JSON. Reads it even if the queue is full, since the request may not start a prediction.
 * @param read converts the value in the turn of the event loop that parses it
 * @param maxCost most values, as `sizeOfJson` counts them
 * @throws ProblemError 400, 408 or 413; SconceError `body_invalid`, `queue_full`; errors of `read`
 */
export async function readMessage<T>(
  raw: Request,
  { memory, uploads, config }: MessageOptions,
  read: (value: unknown) => T,
  maxCost = MAX_COST,
): Promise<Message<T>> {
  const limits = { maxBytes: config.maxBodyBytes, memory, uploads, isMessage: true };
  const { body, bytes, charge } = await readBytes(raw, limits);
  try {
    return { value: await parseMessage(body, charge, read, maxCost), bytes, charge };
  } catch (error) {
    charge[Symbol.dispose]();
    throw error;
  }
}

/** Parses the JSON of a message as `readMessage` does. @param charge gets the memory of the values */
export async function parseMessage<T>(
  bytes: Uint8Array,
  charge: Charge,
  read: (value: unknown) => T,
  maxCost = MAX_COST,
): Promise<T> {
  if (bytes.length <= TURN_BYTES) return read(parseJson(utf8(bytes)));
  if (bytes.length > MAX_MESSAGE_BYTES) throw messageTooLarge();
  const size = sizeOfJson(bytes);
  if (size.cost > maxCost) throw tooManyValues(maxCost);
  charge.mustGrow(valueBytes(size, bytes.length));
  return inTurn(() => read(parseJson(utf8(bytes))));
}

/** The error for a message whose values the event loop would parse or check too long. */
export function tooManyValues(maxCost = MAX_COST): ProblemError {
  const detail = `JSON may have at most ${maxCost} values here (${COST_RULE}); send fewer inputs at once, or arrays as bytes`;
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

/** Counts the memory of a text that a request makes. @throws SconceError `queue_full` */
export function chargeText(memory: MemoryAccount, text: string): Charge {
  const charge = memory.take("bodies", HELD_PER_BYTE * text.length);
  if (charge === undefined) throw memoryFull();
  return charge;
}
