/** Removes values of a wrong JSON type from a JSON text. Parsing them is costly, and the faults of the text stay the same. */
import { anything, type Expected, type Kind } from "./expected-kinds.ts";
import { afterSpace, CLOSE_LIST, CLOSE_OBJECT, COMMA, endOfText, OPEN_LIST, OPEN_OBJECT, QUOTE } from "./json-text.ts";

const COLON = 0x3a;

/**
 * Empties lists and objects where the schema expects another type. Cuts a list after `max + 1` elements of a wrong
 * type. The first `max` faults stay the same.
 * @param bytes elements of a list, separated by commas
 * @param element the JSON types that the schema accepts for each element
 * @returns undefined if there is nothing to remove, the text is not JSON, or its nesting overflows the stack
 */
export function withoutWrongKinds(bytes: Uint8Array, element: Expected, max: number): Uint8Array | undefined {
  const cutter = new Cutter(bytes, max);
  try {
    // The outermost list is never cut, because the caller counts its elements.
    const end = cutter.elements(0, element, { minLength: Number.POSITIVE_INFINITY });
    return end === bytes.length ? cutter.rest() : undefined;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Marks the bytes that end a number or a word such as `true`. */
const endsWord = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte <= 0x20 || byte === COMMA || byte === CLOSE_LIST || byte === CLOSE_OBJECT ? 1 : 0,
);

interface ListLimits {
  /** Number of elements that are always kept. */
  readonly minLength: number;
  /** Whether the JSON text keeps all elements of this list and of the lists in it. True in a union of schemas. */
  readonly isWhole?: boolean;
}

class Cutter {
  readonly #bytes: Uint8Array;
  readonly #max: number;
  /** The text between the removed parts. */
  readonly #retained: Uint8Array[] = [];
  #retainedTo = 0;

  constructor(bytes: Uint8Array, max: number) {
    this.#bytes = bytes;
    this.#max = max;
  }

  rest(): Uint8Array | undefined {
    return this.#retainedTo === 0
      ? undefined
      : Buffer.concat([...this.#retained, this.#bytes.subarray(this.#retainedTo)]);
  }

  /**
   * Reads the elements of a list, and cuts the list after too many elements of a wrong type.
   * @returns the index after the last element; -1 if the elements are not JSON
   */
  elements(from: number, expected: Expected, { minLength, isWhole = false }: ListLimits): number {
    const { kinds } = expected;
    let count = 0;
    let wrong = 0;
    for (let at = afterSpace(this.#bytes, from); ; at = afterSpace(this.#bytes, at + 1)) {
      count += 1;
      if (!kinds.has(kindOfValue(this.#bytes[at] ?? 0))) wrong += 1;
      const end = this.#value(at, expected, isWhole);
      if (end < 0) return -1;
      at = afterSpace(this.#bytes, end);
      if (this.#bytes[at] !== COMMA) return at;
      if (isWhole || wrong <= this.#max || count < minLength) continue;
      const close = this.#endOfNested(at) - 1;
      if (close > 0) this.#cut(at, close);
      return close;
    }
  }

  /**
   * Reads a value, and empties a list or an object of a wrong type.
   * @returns the index after the value that begins at `at`; -1 if it is not JSON
   */
  #value(at: number, expected: Expected, isWhole = false): number {
    const kind = kindOfValue(this.#bytes[at] ?? 0);
    if (kind === "string") {
      const quote = endOfText(this.#bytes, at);
      return quote < 0 ? -1 : quote + 1;
    }
    if (kind !== "array" && kind !== "object") return this.#endOfWord(at);
    if (!expected.kinds.has(kind)) {
      const end = this.#endOfNested(at + 1);
      if (end > 0) this.#cut(at + 1, end - 1);
      return end;
    }
    if (expected === anything) return this.#endOfNested(at + 1);
    return kind === "array" ? this.#list(at, expected, isWhole) : this.#object(at, expected, isWhole);
  }

  #list(at: number, { items = anything, first: tuple, sufficientLength = 0 }: Expected, isWhole: boolean): number {
    // A tuple is kept as a whole, because each of its elements has another schema.
    if (tuple !== undefined) return this.#endOfNested(at + 1);
    const first = afterSpace(this.#bytes, at + 1);
    const isEmpty = this.#bytes[first] === CLOSE_LIST;
    const close = isEmpty
      ? first
      : this.elements(first, items, {
          minLength: sufficientLength,
          isWhole: isWhole || sufficientLength === Number.POSITIVE_INFINITY,
        });
    return this.#bytes[close] === CLOSE_LIST ? close + 1 : -1;
  }

  #object(begin: number, { fields, otherFields }: Expected, isWhole: boolean): number {
    let at = afterSpace(this.#bytes, begin + 1);
    if (this.#bytes[at] === CLOSE_OBJECT) return at + 1;
    for (;;) {
      if (this.#bytes[at] !== QUOTE) return -1;
      const quote = endOfText(this.#bytes, at);
      if (quote < 0) return -1;
      const key = Buffer.from(this.#bytes.subarray(at + 1, quote)).toString();
      at = afterSpace(this.#bytes, quote + 1);
      if (this.#bytes[at] !== COLON) return -1;
      const isPlain = !key.includes("\\");
      const expected = isPlain ? (fields?.get(key) ?? otherFields ?? nothing) : anything;
      at = this.#value(afterSpace(this.#bytes, at + 1), expected, isWhole);
      if (at < 0) return -1;
      at = afterSpace(this.#bytes, at);
      if (this.#bytes[at] === CLOSE_OBJECT) return at + 1;
      if (this.#bytes[at] !== COMMA) return -1;
      at = afterSpace(this.#bytes, at + 1);
    }
  }

  /** @returns the index after the bracket that closes the list or object around `from`; -1 if none closes it */
  #endOfNested(from: number): number {
    let open = 1;
    for (let at = from; at < this.#bytes.length; at++) {
      const byte = this.#bytes[at];
      if (byte === QUOTE) {
        at = endOfText(this.#bytes, at);
        if (at < 0) return -1;
      } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) open += 1;
      else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        open -= 1;
        if (open === 0) return at + 1;
      }
    }
    return -1;
  }

  /** @returns the index after a number, `true`, `false` or `null`; -1 if there is none */
  #endOfWord(from: number): number {
    const bytes = this.#bytes;
    let at = from;
    while (at < bytes.length && endsWord[bytes[at] ?? 0] === 0) at += 1;
    return at > from ? at : -1;
  }

  #cut(from: number, to: number): void {
    if (from === to) return;
    this.#retained.push(this.#bytes.subarray(this.#retainedTo, from));
    this.#retainedTo = to;
  }
}

/** Accepts no type. Stands for an unknown field, which is a fault whatever its value. */
const nothing: Expected = { kinds: new Set() };

function kindOfValue(first: number): Kind {
  if (first === QUOTE) return "string";
  if (first === OPEN_LIST) return "array";
  if (first === OPEN_OBJECT) return "object";
  if (first === 0x74 || first === 0x66) return "boolean";
  return first === 0x6e ? "null" : "number";
}
