/** Checks a large body in parts, so that its parsed values are never all in memory. */
import {
  Faults,
  type InputDecoder,
  inputsInvalid,
  largeNotJson,
  MAX_FAULTS,
  notAList,
  refuseTooMany,
  tooDeep,
  utf8,
} from "./input-decoder.ts";
import { endOfText, type ListScan, OPEN_LIST, OPEN_OBJECT, QUOTE, scanList } from "./json-text.ts";
import { withoutWrongKinds } from "./wrong-kinds.ts";

/** Minimum bytes of a group of elements that is checked together, in a fraction of a millisecond. */
const PART_BYTES = 16 * 1024;
/** Groups from this size on are first checked without their values of a wrong JSON type, since parsing these values takes much memory. */
const LARGE_PART_BYTES = 4 * PART_BYTES;
const SPACE = 0x20;
/** Maximum size of an invalid body that is parsed as a whole, to get the parser's message. The values may take twenty times this memory. */
const MAX_WHOLE_BYTES = 2 ** 20;

interface CheckOptions {
  readonly partBytes?: number;
  readonly maxNested?: number;
}

/**
 * Checks a body and finds its parts. Each part is parsed, validated and dropped.
 *
 * @param options.maxNested maximum lists and objects in an input, since their values may take a hundred times the memory of their text
 * @returns undefined if the body is no list, but the decoder accepts it
 * @throws SconceError `body_invalid` or `inputs_invalid`, as for a small body; errors of the author's code in the schema
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
    // Refuses the part before parsing, which would create millions of nested values.
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
 * Validates a large part without its values of a wrong JSON type, which would take forty times the memory of their
 * text.
 * @returns whether it found faults; false without a check for a small part
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

/** Refuses a body that is not a list of inputs. Parses a body that is small enough, for the parser's message. */
function refuseWhole(bytes: Uint8Array, decoder: InputDecoder, maxInputs: number): undefined {
  if (bytes.length <= MAX_WHOLE_BYTES) {
    decoder.body(utf8(bytes), maxInputs);
    return undefined;
  }
  const first = String.fromCharCode(bytes.find((byte) => byte > SPACE) ?? SPACE);
  if (first !== "[") throw notAList(first === "{" ? "an object" : `text that begins with ${JSON.stringify(first)}`);
  throw largeNotJson(bytes);
}

export function partCount({ parts }: ListScan): number {
  return parts.length / 2 - 1;
}

/** Index in the body of a part's first element, and number of the part's elements. */
export function partRange({ parts }: ListScan, part: number): { readonly first: number; readonly count: number } {
  const [first = 0, next = 0] = [parts[2 * part], parts[2 * part + 2]];
  return { first, count: next - first };
}

/** @returns the elements of a part; undefined if the part is not JSON */
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
    // Parses one element without brackets, because adding brackets would copy the text.
    if (count === 1) return [JSON.parse(text)];
    const elements: unknown = JSON.parse(`[${text}]`);
    return Array.isArray(elements) ? elements : undefined;
  } catch {
    return undefined;
  }
}
