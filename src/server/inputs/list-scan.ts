/** Finds the elements of a JSON list without parsing them, so that a large one can be parsed part by part. */
import { MAX_LEVELS } from "./nesting.ts";

/** Where the parts of a list begin and end. */
export interface ListScan {
  /** Elements of the list. */
  readonly count: number;
  /**
   * Two numbers for each part: the index of its first element, and where in the bytes that begins. It ends one byte before the next part
   * begins; two more numbers, the count and the place behind the list's end, say so for the last one.
   */
  readonly parts: Uint32Array;
  /** The first part that has more levels than are taken; undefined if none has. */
  readonly deepPart: number | undefined;
}

export const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
export const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const [SPACE, TAB, NEWLINE, RETURN] = [0x20, 0x09, 0x0a, 0x0d];

/** Most bytes are parts of numbers and names, and passed over. */
const isStructural = new Uint8Array(256);
for (const byte of [QUOTE, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT]) isStructural[byte] = 1;

/**
 * Looks at structure alone: that each part is JSON is for a parser to say, of `[`, the part's text, and `]`, which then has as many
 * elements as the scan says.
 *
 * @param bytes UTF-8
 * @param partBytes a part ends with the element that makes it this long
 * @returns undefined for what cannot be a list with an element: then a parser says what is wrong
 */
export function scanList(bytes: Uint8Array, partBytes: number): ListScan | undefined {
  let at = afterSpace(bytes, 0);
  if (bytes[at++] !== OPEN_LIST || bytes[afterSpace(bytes, at)] === CLOSE_LIST) return undefined;
  const parts = [0, at];
  let begin = at;
  let count = 1;
  let depth = 0;
  let deepPart: number | undefined;
  for (; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    if (isStructural[byte] === 0) continue;
    if (byte === COMMA) {
      if (depth > 0) continue;
      if (at + 1 - begin >= partBytes) {
        begin = at + 1;
        parts.push(count, begin);
      }
      count += 1;
    } else if (byte === QUOTE) {
      at = endOfText(bytes, at);
      if (at < 0) return undefined;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1;
      if (depth > MAX_LEVELS) deepPart ??= parts.length / 2 - 1;
    } else if (depth > 0) {
      depth -= 1;
    } else {
      if (byte !== CLOSE_LIST || afterSpace(bytes, at + 1) < bytes.length) return undefined;
      parts.push(count, at + 1);
      return { count, parts: Uint32Array.from(parts), deepPart };
    }
  }
  return undefined;
}

function afterSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== SPACE && byte !== TAB && byte !== NEWLINE && byte !== RETURN) break;
  }
  return at;
}

/** Where the text that begins with the quote at `from` has its other quote; -1 if it has none. */
function endOfText(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from + 1); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let first = at;
    while (bytes[first - 1] === BACKSLASH) first -= 1;
    if ((at - first) % 2 === 0) return at;
  }
  return -1;
}
