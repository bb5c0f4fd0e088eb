/** JSON text of large values, made in pieces: of a million numbers at once it would hold up everybody for a tenth of a second. */

import { ModelFile } from "../../author/file.ts";
import { withFiles } from "../../author/withheld-files.ts";
import { isObject } from "../../base/json.ts";

/** Numbers, or about as much else, that are made text at once: a millisecond. */
const MAX_AT_ONCE = 8192;
/** Characters of a string that cost as much as a number. */
const CHARACTERS = 128;
/** Values that are held for their texts to be made. */
const MAX_WAITING = 4;
/** What lies deeper is small, or is made text with what holds it. */
const MAX_DEPTH = 8;
/** Of text as bytes, which is made in pieces of at least so many characters. */
const PIECE_LENGTH = 128 * 1024;
/** Time after which the event loop turns: a small request beside takes several turns. */
const MAX_HOLD_MS = 1;

/** Texts are made one after the other, so that however many are under way each turn of the loop is short. */
export class LargeJson {
  #last: Promise<unknown> = Promise.resolve();
  #count = 0;

  /** Whether so many values wait that no more should be made: each may be tens of megabytes. */
  get isFull(): boolean {
    return this.#count >= MAX_WAITING;
  }

  /**
   * @param files whose marks are in the value
   * @returns what `JSON.stringify` does, as UTF-8 in pieces: as one text it would be copied and looked through as a whole, again and again
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

/** The text that `JSON.stringify` gives, each piece made when it is asked for. */
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

/** Undefined for what JSON leaves out. */
function piecesOfMember(value: unknown, max: number): Iterable<string> | undefined {
  if (isPlain(value) && isLarge(value, max)) return piecesOfJson(value, max);
  const text = JSON.stringify(value);
  return text === undefined ? undefined : [text];
}

async function slowly(texts: Iterable<string>): Promise<Uint8Array[]> {
  const encoder = new TextEncoder();
  const pieces: Uint8Array[] = [];
  let piece = "";
  let beganMs = performance.now();
  for (const text of texts) {
    piece += text;
    if (piece.length >= PIECE_LENGTH) {
      pieces.push(encoder.encode(piece));
      piece = "";
    }
    if (performance.now() - beganMs < MAX_HOLD_MS) continue;
    await new Promise((resolve) => setImmediate(resolve));
    beganMs = performance.now();
  }
  pieces.push(encoder.encode(piece));
  return pieces;
}

/** A list or an object that says nothing of its own text. */
function isPlain(value: unknown): value is readonly unknown[] | object {
  if (typeof value !== "object" || value === null || "toJSON" in value) return false;
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
}

/** In numbers; of a list as if all were like its first. */
function sizeOf(value: unknown, depth = 0): number {
  if (typeof value === "string") return 1 + value.length / CHARACTERS;
  if (typeof value !== "object" || value === null || depth === MAX_DEPTH) return 1;
  if (Array.isArray(value)) return 1 + value.length * sizeOf(value[0], depth + 1);
  if (value instanceof ModelFile) return value.isFilled ? 1 + value.bytes.length / CHARACTERS : 1;
  // A tensor, which becomes lists; bytes of other kinds become one string.
  if ("data" in value && ArrayBuffer.isView(value.data)) return "length" in value.data ? Number(value.data.length) : 1;
  if (Object.getPrototypeOf(value) !== Object.prototype || !isObject(value)) return 1;
  let size = 1;
  // Not `Object.values`, which makes a list for each output.
  for (const name in value) size += sizeOf(value[name], depth + 1);
  return size;
}
