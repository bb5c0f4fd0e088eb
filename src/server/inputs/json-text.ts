/**
 * Finds elements of a JSON list without parsing them, so that a large list can be parsed in parts. Also finds syntax
 * errors and values that are nested too deeply.
 */

/** Where the parts of a list are in its text. A part is a group of elements. */
export interface ListScan {
  readonly count: number;
  /**
   * Two numbers per part: the index of its first element, and the byte offset of this element. A last pair has the
   * count of all elements and the offset after the list.
   */
  readonly parts: Uint32Array;
  /** Index of the first part with brackets deeper than `MAX_LEVELS`; undefined if there is none. */
  readonly deepPart: number | undefined;
}

export const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
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

/** @returns the index of the first byte at or after `from` that is not white space */
export function afterSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== SPACE && byte !== TAB && byte !== NEWLINE && byte !== RETURN) break;
  }
  return at;
}

/** @returns the index of the quote that ends the string that begins at `from`; -1 if there is none */
export function endOfText(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from + 1); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let first = at;
    while (bytes[first - 1] === BACKSLASH) first -= 1;
    if ((at - first) % 2 === 0) return at;
  }
  return -1;
}

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const word = /true|false|null/y;
const escaped = /\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4})/y;

/**
 * Finds the syntax error in a JSON text, or the first bracket beyond `MAX_LEVELS`.
 * @param bytes UTF-8 that JSON.parse() refuses
 */
export function jsonFault(bytes: Uint8Array): JsonFault {
  // Decodes as Latin-1, with one character per byte, since JSON's syntax is ASCII.
  const found = faultAt(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1"));
  const isTooDeep = typeof found !== "number";
  const at = isTooDeep ? found.deepAt : found;
  let line = 1;
  let begin = 0;
  for (let next = bytes.indexOf(NEWLINE); next >= 0 && next < at; next = bytes.indexOf(NEWLINE, begin)) {
    line += 1;
    begin = next + 1;
  }
  const column = new TextDecoder().decode(bytes.subarray(begin, at)).length + 1;
  return { place: `line ${line}, column ${column}`, isTooDeep };
}

export interface JsonFault {
  /** `line 1, column 12`, counted from 1; for a trailing comma, the position of the comma. */
  readonly place: string;
  /** Whether the place is a bracket beyond `MAX_LEVELS`. The text after it is not checked. */
  readonly isTooDeep: boolean;
}

function faultAt(text: string): number | { readonly deepAt: number } {
  const open: ("[" | "{")[] = [];
  let comma = -1;
  let isFresh = false;
  for (let at = spaceEnd(text, 0); ; ) {
    const inside = open.at(-1);
    const char = text[at] ?? "";
    const isClosed = (char === "]" && inside === "[") || (char === "}" && inside === "{");
    if (isClosed && comma >= 0) return comma;
    const isEmpty = isClosed && isFresh;
    if (!isEmpty && inside === "{") {
      const end = textEnd(text, at);
      if (end < 0) return -end - 1;
      const colon = spaceEnd(text, end);
      if (text[colon] !== ":") return colon;
      at = spaceEnd(text, colon + 1);
    }
    comma = -1;
    isFresh = false;
    const first = text[at] ?? "";
    if (!isEmpty && (first === "[" || first === "{")) {
      if (open.push(first) > MAX_LEVELS) return { deepAt: at };
      isFresh = true;
      at = spaceEnd(text, at + 1);
      continue;
    }
    if (!isEmpty) {
      const end = first === '"' ? textEnd(text, at) : Math.max(matchEnd(number, text, at), matchEnd(word, text, at));
      if (end < 0) return first === '"' ? -end - 1 : at;
      at = spaceEnd(text, end);
    }
    for (;;) {
      const bracket = open.at(-1);
      if (bracket === undefined) return at;
      if (text[at] === ",") {
        comma = at;
        at = spaceEnd(text, at + 1);
        break;
      }
      if (text[at] !== (bracket === "[" ? "]" : "}")) return at;
      open.pop();
      at = spaceEnd(text, at + 1);
    }
  }
}

/** @returns the index after the string that begins at `quote`; `-at - 1` if its syntax is wrong at `at` */
function textEnd(text: string, quote: number): number {
  if (text[quote] !== '"') return -quote - 1;
  for (let at = quote + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    if (code < 0x20) return -at - 1;
    if (code !== 0x5c) continue;
    const end = matchEnd(escaped, text, at);
    if (end < 0) return -at - 1;
    at = end - 1;
  }
  return -text.length - 1;
}

function matchEnd(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

function spaceEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && "\t\n\r ".includes(text.charAt(at))) at += 1;
  return at;
}

/** Maximum levels of lists and objects in a body. */
export const MAX_LEVELS = 2000;

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
