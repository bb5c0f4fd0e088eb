/** Checks a large body part by part. Only its bytes are in memory as a whole, never its values. */
import {
  bodyInvalid,
  Faults,
  type InputDecoder,
  inputsInvalid,
  MAX_FAULTS,
  notAList,
  refuseTooMany,
  tooDeep,
  utf8,
} from "./input-decoder.ts";
import { endOfText, faultPlace, type ListScan, OPEN_LIST, OPEN_OBJECT, QUOTE, scanList } from "./json-text.ts";
import { withoutWrongKinds } from "./wrong-kinds.ts";

/** Size of a part: a fraction of a millisecond of work. */
const PART_BYTES = 16 * 1024;
/** A part of this size has a large input. */
const LARGE_PART_BYTES = 4 * PART_BYTES;
const SPACE = 0x20;
/** A larger body is not parsed as a whole for the parser's message: the values may take twenty times its memory. */
const MAX_WHOLE_BYTES = 2 ** 20;

interface CheckOptions {
  readonly partBytes?: number;
  readonly maxNested?: number;
}

/**
 * Checks a body and finds its parts. Each part is parsed, decoded and dropped.
 *
 * @param options.maxNested most lists and objects in an input. Their values may take a hundred times the memory of their text
 * @returns undefined for a body that is not a list, but that the decoder accepts
 * @throws SconceError `body_invalid` or `inputs_invalid`, the same as for a small body; errors of the author's schema
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
  for (let part = 0; part < partCount(scan) && !faults.isFull; part++) {
    const { first, count } = partRange(scan, part);
    if (hasFaultsOfKind(bytes, scan, part, decoder, faults)) continue;
    // Refused before parsing, which would create millions of nested values.
    if (part === scan.deepPart) throw tooDeep();
    const text = partText(bytes, scan, part);
    if (text.length > maxNested && countNested(text) > maxNested) {
      const detail = `expected at most ${maxNested} lists and objects in an input, for the memory of this server`;
      throw inputsInvalid([{ pointer: `/${first}`, detail }]);
    }
    const elements = parsePart(bytes, scan, part);
    if (elements?.length !== count) return refuseWhole(bytes, decoder, maxInputs);
    decoder.list(elements, first, faults);
  }
  faults.throwIfAny();
  return scan;
}

/**
 * Removes values of a wrong JSON type from a large part, and adds the faults of the rest. The removed values would take forty times the
 * memory of their text.
 * @returns whether it added faults; the first thousand are the same as for the whole part
 */
function hasFaultsOfKind(
  bytes: Uint8Array,
  scan: ListScan,
  part: number,
  decoder: InputDecoder,
  faults: Faults,
): boolean {
  const text = partText(bytes, scan, part);
  if (text.length < LARGE_PART_BYTES && part !== scan.deepPart) return false;
  const shortened = withoutWrongKinds(text, decoder.expected, MAX_FAULTS);
  const elements = shortened && parseElements(shortened, partRange(scan, part).count);
  if (elements === undefined) return false;
  const before = faults.count;
  decoder.list(elements, partRange(scan, part).first, faults);
  return faults.count > before;
}

/** Counts the lists and objects in a JSON text. */
function countNested(text: Uint8Array): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const byte = text[at];
    if (byte === OPEN_LIST || byte === OPEN_OBJECT) count += 1;
    else if (byte === QUOTE) {
      at = endOfText(text, at);
      if (at < 0) return count;
    }
  }
  return count;
}

/** Refuses a body that is not a list of inputs: with the parser's message if the body is small enough to parse. */
function refuseWhole(bytes: Uint8Array, decoder: InputDecoder, maxInputs: number): undefined {
  if (bytes.length <= MAX_WHOLE_BYTES) {
    decoder.body(utf8(bytes), maxInputs);
    return undefined;
  }
  const first = String.fromCharCode(bytes.find((byte) => byte > SPACE) ?? SPACE);
  if (first !== "[") throw notAList(first === "{" ? "an object" : `text that begins with ${JSON.stringify(first)}`);
  throw bodyInvalid(`the body is not JSON (${faultPlace(bytes)})`);
}

export function partCount({ parts }: ListScan): number {
  return parts.length / 2 - 1;
}

/** The index in the body of a part's first element, and the count of its elements. */
export function partRange({ parts }: ListScan, part: number): { readonly first: number; readonly count: number } {
  const [first = 0, next = 0] = [parts[2 * part], parts[2 * part + 2]];
  return { first, count: next - first };
}

/** @returns the elements of a part; undefined if it isn't JSON */
export function parsePart(bytes: Uint8Array, scan: ListScan, part: number): unknown[] | undefined {
  return parseElements(partText(bytes, scan, part), partRange(scan, part).count);
}

function partText(bytes: Uint8Array, { parts }: ListScan, part: number): Uint8Array {
  const [begin = 0, next = 0] = [parts[2 * part + 1], parts[2 * part + 3]];
  return bytes.subarray(begin, next - 1);
}

function parseElements(bytes: Uint8Array, count: number): unknown[] | undefined {
  const text = utf8(bytes);
  try {
    // Brackets would copy the text of a large input.
    if (count === 1) return [JSON.parse(text)];
    const elements: unknown = JSON.parse(`[${text}]`);
    return Array.isArray(elements) ? elements : undefined;
  } catch {
    return undefined;
  }
}
