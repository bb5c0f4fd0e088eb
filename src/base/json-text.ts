/**
 * Reads JSON as text, without parsing it: finds the elements of a list, so that a large list can be parsed in parts, and counts values. Parsed values
 * take up to a hundred times the memory of their text, and a parser holds the event loop until it has created all of them.
 */

export interface JsonSize {
  /** Work of the parser: a number or text costs 1; a list, an object and the name of a field cost 4 each. */
  readonly cost: number;
  /** Memory of the parsed values. Texts are not included, since they take as much as in the JSON. */
  readonly bytes: number;
}

/** A group of elements of a JSON list, and the size of its values. */
export interface ListPart extends JsonSize {
  /** Index in the list of the first element. */
  readonly first: number;
  readonly count: number;
  /** Place of the elements in the text of the list, with the commas between them. */
  readonly begin: number;
  readonly end: number;
}

/** A text of this cost is parsed and checked within 50 ms. 250,000 objects took 150 ms, a million numbers 30 ms. */
export const MAX_COST = 500_000;

/** How to count, for error messages. */
export const COST_RULE = "a number or text counts 1; a list, an object and the name of a field count 4 each";

/** Measured bytes: 372 for `[]`, 315 for an object; a new name also creates a hidden class. */
const [VALUE_BYTES, NESTED_BYTES, NAME_BYTES] = [16, 400, 64];
const [NESTED_COST, NAME_COST] = [4, 4];

const [QUOTE, COMMA, COLON] = [0x22, 0x2c, 0x3a];
const BACKSLASH = 0x5c;
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const [SPACE, TAB, NEWLINE, RETURN] = [0x20, 0x09, 0x0a, 0x0d];

/** 1 for bytes that a scan stops at. Most bytes belong to numbers and names, which it skips. */
const isStructural = new Uint8Array(256);
for (const byte of [QUOTE, COMMA, COLON, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT]) isStructural[byte] = 1;
/** Bytes for one turn of the event loop: their scan takes less than a millisecond. */
const SCANNED_BYTES = 256 * 1024;

/**
 * Splits a JSON list into parts. Does not validate a part: a parser must read `[`, the part's text, and `]`.
 *
 * @param text UTF-8
 * @param partBytes a part ends after the element with which it reaches this size
 * @returns yields the parts. Within a large element, yields undefined, so that the caller can let other work run. Returns false if the text is no
 * list with an element: a parser then finds the fault
 */
export function* partsOfList(text: Uint8Array, partBytes: number): Generator<ListPart | undefined, boolean> {
  let at = afterSpace(text, 0);
  if (text[at++] !== OPEN_LIST || text[afterSpace(text, at)] === CLOSE_LIST) return false;
  let [first, count, begin, depth, pauseAt] = [0, 1, at, 0, at + SCANNED_BYTES];
  let [cost, bytes] = [1, VALUE_BYTES];
  for (; at < text.length; at++) {
    const byte = text[at] ?? 0;
    if (isStructural[byte] === 0) continue;
    if (at >= pauseAt) {
      yield undefined;
      pauseAt = at + SCANNED_BYTES;
    }
    if (byte === COMMA) {
      if (depth === 0) {
        if (at + 1 - begin >= partBytes) {
          yield { first, count: count - first, begin, end: at, cost, bytes };
          [first, begin, cost, bytes] = [count, at + 1, 0, 0];
        }
        count += 1;
      }
      cost += 1;
      bytes += VALUE_BYTES;
    } else if (byte === COLON) {
      cost += NAME_COST;
      bytes += NAME_BYTES;
    } else if (byte === QUOTE) {
      do {
        at = text.indexOf(QUOTE, at + 1);
        if (at >= pauseAt) {
          yield undefined;
          pauseAt = at + SCANNED_BYTES;
        }
      } while (at >= 0 && isEscaped(text, at));
      if (at < 0) return false;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1;
      cost += NESTED_COST;
      bytes += NESTED_BYTES;
    } else if (depth > 0) {
      depth -= 1;
    } else {
      if (byte !== CLOSE_LIST || afterSpace(text, at + 1) < text.length) return false;
      yield { first, count: count - first, begin, end: at, cost, bytes };
      return true;
    }
  }
  return false;
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

/** Whether the quote at `at` belongs to its string, after an odd number of backslashes. */
function isEscaped(bytes: Uint8Array, at: number): boolean {
  let first = at;
  while (bytes[first - 1] === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}

/** A quote in a text ends the fast search for the end of the text. */
const ESCAPED_QUOTE_COST = 0.25;

/**
 * Counts the values in a JSON text, and stops when the cost exceeds `MAX_COST`. Does not check the syntax.
 * @param text UTF-8
 */
export function sizeOfJson(text: Uint8Array): JsonSize {
  let [cost, bytes] = [1, VALUE_BYTES];
  for (let at = 0; at < text.length && cost <= MAX_COST; at++) {
    const byte = text[at] ?? 0;
    if (isStructural[byte] === 0) continue;
    if (byte === COMMA) {
      cost += 1;
      bytes += VALUE_BYTES;
    } else if (byte === COLON) {
      cost += NAME_COST;
      bytes += NAME_BYTES;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      cost += NESTED_COST;
      bytes += NESTED_BYTES;
    } else if (byte === QUOTE) {
      at = text.indexOf(QUOTE, at + 1);
      for (; at >= 0 && isEscaped(text, at) && cost <= MAX_COST; at = text.indexOf(QUOTE, at + 1)) {
        cost += ESCAPED_QUOTE_COST;
      }
      if (at < 0) break;
    }
  }
  return { cost, bytes };
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
