/** JSON text of large values in pieces. Written at once, a million numbers would block the event loop for 100 ms. */

import { ModelFile } from "../author/file.ts";
import { withFiles } from "../author/withheld-files.ts";
import { isObject } from "../base/json.ts";
import { Turn } from "../base/turn.ts";

/** Maximum numbers in one call of `JSON.stringify`; such a call takes a millisecond. */
const MAX_AT_ONCE = 8192;
const CHARACTERS_PER_NUMBER = 128;
/** From this many values, waiting or being converted, the queue counts as full. */
const MAX_WAITING = 4;
/** Depth to which the search for large values goes. */
const MAX_DEPTH = 8;
/** Least length of a piece, in characters. */
const PIECE_LENGTH = 128 * 1024;
/** Maximum milliseconds of conversion in one turn of the event loop, so that small requests stay quick. */
const MAX_HOLD_MS = 1;

/** Converts values to JSON text, one at a time and in many turns of the event loop. */
export class LargeJson {
  #last: Promise<unknown> = Promise.resolve();
  #count = 0;

  /** Whether the queue is full. It is short, because each value may have tens of megabytes. */
  get isFull(): boolean {
    return this.#count >= MAX_WAITING;
  }

  /**
   * Converts a value after all earlier values.
   * @param files content of files, by the placeholders that stand for it in `value`
   * @returns the text of `JSON.stringify` as UTF-8 in pieces, because one large text would be copied and scanned
   * several times
   */
  text(value: unknown, files: ReadonlyMap<string, Uint8Array> = new Map()): Promise<Uint8Array[]> {
    this.#count += 1;
    const text = this.#last
      .then(() => slowly(withFiles(piecesOfJson(value), files)))
      .finally(() => {
        this.#count -= 1;
      });
    this.#last = text.catch(() => {});
    return text;
  }
}

/** Whether `JSON.stringify` of a value takes long. */
export function isLarge(value: unknown, max = MAX_AT_ONCE): boolean {
  return sizeOf(value) > max;
}

/** The text of `JSON.stringify` in pieces, each created on demand. */
export function* piecesOfJson(value: unknown, max = MAX_AT_ONCE): Generator<string> {
  if (!isPlain(value) || !isLarge(value, max)) {
    yield JSON.stringify(value) ?? "null";
  } else if (Array.isArray(value)) {
    const step = Math.max(1, Math.floor(max / sizeOf(value[0])));
    for (let at = 0; at < value.length; at += step) {
      yield at === 0 ? "[" : ",";
      if (step === 1) yield* piecesOfJson(value[at], max);
      else yield JSON.stringify(value.slice(at, at + step)).slice(1, -1);
    }
    yield "]";
  } else {
    let before = "{";
    for (const [name, member] of Object.entries(value)) {
      const pieces = piecesOfMember(member, max);
      if (pieces === undefined) continue;
      yield `${before}${JSON.stringify(name)}:`;
      yield* pieces;
      before = ",";
    }
    yield before === "{" ? "{}" : "}";
  }
}

/** The pieces of an object's member; undefined for a value that JSON omits. */
function piecesOfMember(value: unknown, max: number): Iterable<string> | undefined {
  if (isPlain(value) && isLarge(value, max)) return piecesOfJson(value, max);
  const text = JSON.stringify(value);
  return text === undefined ? undefined : [text];
}

async function slowly(texts: Iterable<string>): Promise<Uint8Array[]> {
  const encoder = new TextEncoder();
  const pieces: Uint8Array[] = [];
  let piece = "";
  const turn = new Turn(MAX_HOLD_MS);
  for (const text of texts) {
    piece += text;
    if (piece.length >= PIECE_LENGTH) {
      pieces.push(encoder.encode(piece));
      piece = "";
    }
    if (turn.isOver) await turn.next();
  }
  pieces.push(encoder.encode(piece));
  return pieces;
}

/** Whether a value is an array, or a plain object without `toJSON`. */
function isPlain(value: unknown): value is readonly unknown[] | object {
  if (typeof value !== "object" || value === null || "toJSON" in value) return false;
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
}

/** Estimated size of a value, as a count of numbers. All elements of an array count like the first. */
function sizeOf(value: unknown, depth = 0): number {
  if (typeof value === "string") return 1 + value.length / CHARACTERS_PER_NUMBER;
  if (typeof value !== "object" || value === null || depth === MAX_DEPTH) return 1;
  if (Array.isArray(value)) return 1 + value.length * sizeOf(value[0], depth + 1);
  if (value instanceof ModelFile) return value.isFilled ? 1 + value.bytes.length / CHARACTERS_PER_NUMBER : 1;
  // A tensor becomes arrays of numbers.
  if ("data" in value && ArrayBuffer.isView(value.data)) return "length" in value.data ? Number(value.data.length) : 1;
  if (Object.getPrototypeOf(value) !== Object.prototype || !isObject(value)) return 1;
  let size = 1;
  // `Object.values` would allocate an array for each object.
  for (const name in value) size += sizeOf(value[name], depth + 1);
  return size;
}
