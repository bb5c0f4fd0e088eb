/** Cuts from a JSON text what its faults do not need: values of a kind that no schema takes are costly to make, and never used. */
import { anything, type Expected, type Kind } from "./expected-kinds.ts";
import { BACKSLASH, CLOSE_LIST, CLOSE_OBJECT, COMMA, OPEN_LIST, OPEN_OBJECT, QUOTE } from "./json-text.ts";

const COLON = 0x3a;

/**
 * What is left of a text when lists end with their element of a wrong kind that is one beyond `max`, and lists and objects of a wrong
 * kind are empty: its first faults are the same.
 *
 * @param bytes elements of a list, with commas between them
 * @returns undefined if there is nothing to cut, the text is no JSON, or it is nested too deeply to tell
 */
export function withoutWrongKinds(bytes: Uint8Array, element: Expected, max: number): Uint8Array | undefined {
  const cutter = new Cutter(bytes, max);
  try {
    // The elements themselves stay: their faults are counted by others.
    const end = cutter.elements(0, element, { enough: Number.POSITIVE_INFINITY });
    return end === bytes.length ? cutter.rest() : undefined;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Bytes that no number or word has: white space and what stands between values. */
const endsWord = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte <= 0x20 || byte === COMMA || byte === CLOSE_LIST || byte === CLOSE_OBJECT ? 1 : 0,
);

interface Leaving {
  /** So many elements are left in any case. */
  readonly enough: number;
  /** All are, and those of the lists in them, whose lengths are compared. */
  readonly isWhole?: boolean;
}

class Cutter {
  readonly #bytes: Uint8Array;
  readonly #max: number;
  /** What is kept between cuts. */
  readonly #kept: Uint8Array[] = [];
  #keptTo = 0;

  constructor(bytes: Uint8Array, max: number) {
    this.#bytes = bytes;
    this.#max = max;
  }

  rest(): Uint8Array | undefined {
    return this.#keptTo === 0 ? undefined : Buffer.concat([...this.#kept, this.#bytes.subarray(this.#keptTo)]);
  }

  /** @returns where the elements end: at what is no comma; -1 for no JSON */
  elements(from: number, expected: Expected, { enough, isWhole = false }: Leaving): number {
    const { kinds } = expected;
    let count = 0;
    let wrong = 0;
    for (let at = this.#afterSpace(from); ; at = this.#afterSpace(at + 1)) {
      count += 1;
      if (!kinds.has(kindOf(this.#bytes[at] ?? 0))) wrong += 1;
      const end = this.#value(at, expected, isWhole);
      if (end < 0) return -1;
      at = this.#afterSpace(end);
      if (this.#bytes[at] !== COMMA) return at;
      if (isWhole || wrong <= this.#max || count < enough) continue;
      const close = this.#endOfNested(at) - 1;
      if (close > 0) this.#cut(at, close);
      return close;
    }
  }

  /** @returns where the value that begins at `at` ends; -1 for no JSON */
  #value(at: number, expected: Expected, isWhole = false): number {
    const kind = kindOf(this.#bytes[at] ?? 0);
    if (kind === "string") return this.#endOfText(at);
    if (kind !== "array" && kind !== "object") return this.#endOfWord(at);
    if (!expected.kinds.has(kind)) {
      const end = this.#endOfNested(at + 1);
      if (end > 0) this.#cut(at + 1, end - 1);
      return end;
    }
    if (expected === anything) return this.#endOfNested(at + 1);
    return kind === "array" ? this.#list(at, expected, isWhole) : this.#object(at, expected, isWhole);
  }

  #list(at: number, { items = anything, first: tuple, enough = 0 }: Expected, isWhole: boolean): number {
    // Of a tuple nothing is cut: its elements differ.
    if (tuple !== undefined) return this.#endOfNested(at + 1);
    const first = this.#afterSpace(at + 1);
    const isEmpty = this.#bytes[first] === CLOSE_LIST;
    const close = isEmpty
      ? first
      : this.elements(first, items, { enough, isWhole: isWhole || enough === Number.POSITIVE_INFINITY });
    return this.#bytes[close] === CLOSE_LIST ? close + 1 : -1;
  }

  #object(begin: number, { fields, others }: Expected, isWhole: boolean): number {
    let at = this.#afterSpace(begin + 1);
    if (this.#bytes[at] === CLOSE_OBJECT) return at + 1;
    for (;;) {
      if (this.#bytes[at] !== QUOTE) return -1;
      const endOfKey = this.#endOfText(at);
      const key = Buffer.from(this.#bytes.subarray(at + 1, endOfKey - 1)).toString();
      at = this.#afterSpace(endOfKey);
      if (endOfKey < 0 || this.#bytes[at] !== COLON) return -1;
      const isPlain = !key.includes("\\");
      const expected = isPlain ? (fields?.get(key) ?? others ?? nothing) : anything;
      at = this.#value(this.#afterSpace(at + 1), expected, isWhole);
      if (at < 0) return -1;
      at = this.#afterSpace(at);
      if (this.#bytes[at] === CLOSE_OBJECT) return at + 1;
      if (this.#bytes[at] !== COMMA) return -1;
      at = this.#afterSpace(at + 1);
    }
  }

  /** Behind the bracket that closes the list or object that `from` is in. */
  #endOfNested(from: number): number {
    let open = 1;
    for (let at = from; at < this.#bytes.length; at++) {
      const byte = this.#bytes[at];
      if (byte === QUOTE) {
        at = this.#endOfText(at) - 1;
        if (at < 0) return -1;
      } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) open += 1;
      else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        open -= 1;
        if (open === 0) return at + 1;
      }
    }
    return -1;
  }

  #endOfText(quote: number): number {
    for (let at = quote + 1; at < this.#bytes.length; at++) {
      const byte = this.#bytes[at];
      if (byte === QUOTE) return at + 1;
      if (byte === BACKSLASH) at += 1;
    }
    return -1;
  }

  /** Of a number, `true`, `false` or `null`. */
  #endOfWord(from: number): number {
    const bytes = this.#bytes;
    let at = from;
    while (at < bytes.length && endsWord[bytes[at] ?? 0] === 0) at += 1;
    return at > from ? at : -1;
  }

  #afterSpace(from: number): number {
    let at = from;
    while (at < this.#bytes.length && (this.#bytes[at] ?? 0) <= 0x20) at += 1;
    return at;
  }

  #cut(from: number, to: number): void {
    if (from === to) return;
    this.#kept.push(this.#bytes.subarray(this.#keptTo, from));
    this.#keptTo = to;
  }
}

/** Of a field that there is not: whatever it holds, its name is the fault. */
const nothing: Expected = { kinds: new Set() };

function kindOf(first: number): Kind {
  if (first === QUOTE) return "string";
  if (first === OPEN_LIST) return "array";
  if (first === OPEN_OBJECT) return "object";
  if (first === 0x74 || first === 0x66) return "boolean";
  return first === 0x6e ? "null" : "number";
}
