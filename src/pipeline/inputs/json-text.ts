/** Finds elements of a JSON list without parsing them, so that a large list can be parsed in parts. */

/** Where the parts of a list are in its text. A part is a group of elements. */
export interface ListScan {
  readonly count: number;
  /**
   * Two numbers per part: the index of its first element, and the byte offset of this element. A last pair has the
   * count of all elements and the offset after the list.
   */
  readonly parts: Uint32Array;
}

export const [QUOTE, COMMA, COLON] = [0x22, 0x2c, 0x3a];
const BACKSLASH = 0x5c;
export const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const [SPACE, TAB, NEWLINE, RETURN] = [0x20, 0x09, 0x0a, 0x0d];

/** 1 for bytes that the scan stops at. Most bytes belong to numbers and names, which it skips. */
const isStructural = new Uint8Array(256);
for (const byte of [QUOTE, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT]) isStructural[byte] = 1;

/**
 * Splits a JSON list into parts. Does not validate a part: a parser must read `[`, the part's text, and `]`.
 *
 * @param bytes UTF-8
 * @param partBytes a part ends after the element with which it reaches this size
 * @returns undefined if the text is no list with an element; a parser then finds the fault
 */
export function scanList(bytes: Uint8Array, partBytes: number): ListScan | undefined {
  let at = afterSpace(bytes, 0);
  if (bytes[at++] !== OPEN_LIST || bytes[afterSpace(bytes, at)] === CLOSE_LIST) return undefined;
  const parts = [0, at];
  let begin = at;
  let count = 1;
  let depth = 0;
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
    } else if (depth > 0) {
      depth -= 1;
    } else {
      if (byte !== CLOSE_LIST || afterSpace(bytes, at + 1) < bytes.length) return undefined;
      parts.push(count, at + 1);
      return { count, parts: Uint32Array.from(parts) };
    }
  }
  return undefined;
}

/** @returns the index of the first byte at or after `from` that is not white space */
function afterSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== SPACE && byte !== TAB && byte !== NEWLINE && byte !== RETURN) break;
  }
  return at;
}

/** @returns the index of the quote that ends the string that begins at `from`; -1 if there is none */
function endOfText(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from + 1); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    if (!isEscaped(bytes, at)) return at;
  }
  return -1;
}

/** Whether the quote at `at` belongs to its string, after an odd number of backslashes. */
export function isEscaped(bytes: Uint8Array, at: number): boolean {
  let first = at;
  while (bytes[first - 1] === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}

/** Maximum levels of lists and objects in a body. */
const MAX_LEVELS = 2000;

export function isTooDeep(value: unknown): boolean {
  return typeof value === "object" && value !== null && isDeeper(value, MAX_LEVELS);
}

function isDeeper(value: object, levels: number): boolean {
  if (levels === 0) return true;
  if (Array.isArray(value)) {
    // Lists of numbers may be long, so a number costs one `typeof` and no function call.
    for (const element of value)
      if (typeof element === "object" && element && isDeeper(element, levels - 1)) return true;
    return false;
  }
  if (ArrayBuffer.isView(value)) return false;
  for (const element of Object.values(value)) {
    if (typeof element === "object" && element && isDeeper(element, levels - 1)) return true;
  }
  return false;
}
