/** The body of a request before and after it is decoded, and the memory that it needs. */
import type { InputList } from "./input-list.ts";
import type { JsonSize } from "./json-size.ts";

/**
 * Larger bodies are checked on a worker thread, since parsing them at once would block the event loop for milliseconds.
 */
export const LARGE_BYTES = 256 * 1024;

/** Bytes of memory to count for each byte of a body: the body itself, and about two bytes of decoded inputs. */
export const HELD_PER_BYTE = 3;

/** A JSON list of inputs, as text or as received chunks. Decoding may transfer the chunks' memory to another thread. */
export type Body = string | readonly Uint8Array<ArrayBuffer>[];

export interface DecodedBody {
  readonly inputs: InputList;
  /** The JSON list for stores, or a function that creates it. */
  readonly body: string | Uint8Array<ArrayBuffer> | (() => string);
}

/** Counts memory before it is used. @throws SconceError `queue_full` if there is none */
export type Take = (bytes: number) => void;

/** Memory of parsed values that the charge of a body does not include. */
export function valueBytes({ bytes }: Pick<JsonSize, "bytes">, length: number): number {
  return Math.max(0, bytes - (HELD_PER_BYTE - 1) * length);
}
