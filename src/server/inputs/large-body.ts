/** Reads a large body part by part, so that it is never there as a whole but in bytes. */
import {
  Faults,
  type InputDecoder,
  MAX_FAULTS,
  notJson,
  notList,
  refuseTooMany,
  tooDeep,
  unfit,
  utf8,
} from "./input-decoder.ts";
import { BACKSLASH, faultPlace, type ListScan, OPEN_LIST, OPEN_OBJECT, QUOTE, scanList } from "./json-text.ts";
import { withoutWrongKinds } from "./wrong-kinds.ts";

/** Elements are parsed together up to about this many bytes: a fraction of a millisecond of work. */
const PART_BYTES = 16 * 1024;
/** A part is larger than others when it has an input that is. */
const LARGE_PART_BYTES = 4 * PART_BYTES;
const SPACE = 0x20;
/** A body that is no list is parsed as a whole up to this many bytes, for the parser's words: as values it may be twenty times as large. */
const MAX_WHOLE_BYTES = 2 ** 20;

interface CheckOptions {
  readonly partBytes?: number;
  readonly maxNested?: number;
}

/**
 * Checks a body and finds its parts; each is parsed, decoded and let go.
 *
 * @param bytes a body that may hold anything
 * @param options.maxNested lists and objects that an input may have within: as values they are a hundred times as large as their text
 * @returns what `partOf` needs; undefined for a body that does not fall into parts
 * @throws SconceError `body_invalid` or `inputs_invalid`, the same as for a small body; what the author's schema throws
 */
export function checkLargeBody(
  bytes: Uint8Array,
  decoder: InputDecoder,
  maxInputs: number,
  { partBytes = PART_BYTES, maxNested = Number.POSITIVE_INFINITY }: CheckOptions = {},
): ListScan | undefined {
  const scan = scanList(bytes, partBytes);
  if (scan === undefined) return refuseWhole(bytes, decoder, maxInputs);
  refuseTooMany(scan.count, maxInputs);
  const faults = new Faults();
  for (let part = 0; part < partsOf(scan) && !faults.isFull; part++) {
    const { first, count } = rangeOf(scan, part);
    if (hasFaultsOfKind(bytes, scan, part, decoder, faults)) continue;
    // Before millions of levels are made into values.
    if (part === scan.deepPart) throw tooDeep();
    const text = textOf(bytes, scan, part);
    if (text.length > maxNested && nestedIn(text) > maxNested) {
      const detail = `expected at most ${maxNested} lists and objects within, for which there is memory`;
      throw unfit([{ pointer: `/${first}`, detail }]);
    }
    const elements = parsePart(bytes, scan, part);
    if (elements?.length !== count) return refuseWhole(bytes, decoder, maxInputs);
    decoder.list(elements, first, faults);
  }
  faults.refuse();
  return scan;
}

/**
 * Looks for faults in what is left of a large part without values of a wrong kind: as values these may be forty times as large.
 * @returns whether there are, and were added; their first thousand are those of the part
 */
function hasFaultsOfKind(
  bytes: Uint8Array,
  scan: ListScan,
  part: number,
  decoder: InputDecoder,
  faults: Faults,
): boolean {
  const text = textOf(bytes, scan, part);
  if (text.length < LARGE_PART_BYTES && part !== scan.deepPart) return false;
  const left = withoutWrongKinds(text, decoder.expected, MAX_FAULTS);
  const elements = left && parseElements(left, rangeOf(scan, part).count);
  if (elements === undefined) return false;
  const before = faults.count;
  decoder.list(elements, rangeOf(scan, part).first, faults);
  return faults.count > before;
}

/** Lists and objects of a JSON text. */
function nestedIn(text: Uint8Array): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at];
    if (byte === OPEN_LIST || byte === OPEN_OBJECT) count += 1;
    else if (byte === QUOTE) {
      do at = text.indexOf(QUOTE, at + 1);
      while (at > 0 && isEscaped(text, at));
      if (at < 0) return count;
    }
  }
  return count;
}

function isEscaped(text: Uint8Array, at: number): boolean {
  let begin = at;
  while (text[begin - 1] === BACKSLASH) begin -= 1;
  return (at - begin) % 2 === 1;
}

/** Refuses a body that is no list of inputs. The parser's words are only for bodies that may be parsed as a whole. */
function refuseWhole(bytes: Uint8Array, decoder: InputDecoder, maxInputs: number): undefined {
  if (bytes.length <= MAX_WHOLE_BYTES) {
    decoder.body(utf8(bytes), maxInputs);
    return undefined;
  }
  const first = String.fromCharCode(bytes.find((byte) => byte > SPACE) ?? SPACE);
  if (first !== "[") throw notList(first === "{" ? "an object" : `text that begins with ${JSON.stringify(first)}`);
  throw notJson(`the body is not JSON (${faultPlace(bytes)})`);
}

export function partsOf({ parts }: ListScan): number {
  return parts.length / 2 - 1;
}

/** The elements of a part: the index of the first, and how many. */
export function rangeOf({ parts }: ListScan, part: number): { readonly first: number; readonly count: number } {
  const [first = 0, next = 0] = [parts[2 * part], parts[2 * part + 2]];
  return { first, count: next - first };
}

/** @returns the elements of a part; undefined if it isn't JSON */
export function parsePart(bytes: Uint8Array, scan: ListScan, part: number): unknown[] | undefined {
  return parseElements(textOf(bytes, scan, part), rangeOf(scan, part).count);
}

function textOf(bytes: Uint8Array, { parts }: ListScan, part: number): Uint8Array {
  const [begin = 0, next = 0] = [parts[2 * part + 1], parts[2 * part + 3]];
  return bytes.subarray(begin, next - 1);
}

function parseElements(bytes: Uint8Array, count: number): unknown[] | undefined {
  const text = utf8(bytes);
  try {
    // With brackets the text would be copied.
    if (count === 1) return [JSON.parse(text)];
    const elements: unknown = JSON.parse(`[${text}]`);
    return Array.isArray(elements) ? elements : undefined;
  } catch {
    return undefined;
  }
}
