/** Checks a large body in parts, so that its parsed values are never all in memory. */
import type { SconceError } from "../../base/errors.ts";
import {
  bodyInvalid,
  Faults,
  type InputDecoder,
  inputsInvalid,
  notAList,
  parseJson,
  refuseTooMany,
  utf8,
} from "./input-decoder.ts";
import { COST_RULE, MAX_COST, sizeOfJson } from "./json-size.ts";
import { type ListScan, scanList } from "./json-text.ts";

/** Minimum bytes of a group of elements that is checked together, in a fraction of a millisecond. */
const PART_BYTES = 16 * 1024;
const SPACE = 0x20;
/** Most bytes of one input, which the event loop reads at once: 1 to 1.3 ms a MiB. A file of 27 MiB fits as a data URI. */
const MAX_INPUT_BYTES = 36 * 2 ** 20;
/** Maximum size of an invalid body that is parsed as a whole, to get the parser's message. */
const MAX_WHOLE_BYTES = 2 ** 20;

/** A body whose list was split. */
export interface SplitBody {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly scan: ListScan;
}

/**
 * Splits the list of a body into parts.
 * @throws SconceError `body_invalid` or `inputs_invalid` if the body is no list, or has too many inputs
 */
export function splitBody(
  bytes: Uint8Array<ArrayBuffer>,
  decoder: InputDecoder,
  maxInputs: number,
  partBytes = PART_BYTES,
): SplitBody {
  const scan = scanList(bytes, partBytes);
  if (scan === undefined) throw notSplit(bytes, decoder, maxInputs);
  refuseTooMany(scan.count, maxInputs);
  return { bytes, scan };
}

/**
 * Checks a body. Each part is parsed, validated and dropped. Yields after each part.
 * @returns memory of the parsed values of the costliest part, in bytes
 * @throws SconceError `body_invalid` or `inputs_invalid`, as for a small body; errors of the author's code in the schema
 */
export function* checkParts({ bytes, scan }: SplitBody, decoder: InputDecoder): Generator<void, number> {
  const faults = new Faults();
  let mostBytes = 0;
  for (let part = 0; part < partCount(scan) && !faults.isFull; part++) {
    const { first, count } = partRange(scan, part);
    const text = partText(bytes, scan, part);
    const size = sizeOfJson(text);
    // Only the last element of a part can be large.
    if (text.length > MAX_INPUT_BYTES) throw tooLong(first + count - 1);
    if (size.cost > MAX_COST) throw tooCostly(first + count - 1);
    const elements = parsePart(bytes, scan, part);
    decoder.list(elements, first, faults);
    mostBytes = Math.max(mostBytes, size.bytes);
    yield;
  }
  faults.throwIfAny();
  return mostBytes;
}

function tooLong(index: number): SconceError {
  const detail = `an input may have at most ${MAX_INPUT_BYTES} bytes of JSON; send a file by its URL`;
  return inputsInvalid([{ pointer: `/${index}`, detail }]);
}

function tooCostly(index: number): SconceError {
  const detail = `an input may have at most ${MAX_COST} values (${COST_RULE}); send large arrays as the base64 of their bytes, or a file by its URL`;
  return inputsInvalid([{ pointer: `/${index}`, detail }]);
}

/** The error of a body that is not a list of inputs. Parses a body that is small enough, for the parser's message. */
function notSplit(bytes: Uint8Array, decoder: InputDecoder, maxInputs: number): SconceError {
  if (bytes.length <= MAX_WHOLE_BYTES && sizeOfJson(bytes).cost <= MAX_COST) decoder.body(utf8(bytes), maxInputs);
  const first = String.fromCharCode(bytes.find((byte) => byte > SPACE) ?? SPACE);
  if (first === "[") return bodyInvalid("the body is not JSON: its list does not end at the end of the body");
  return notAList(first === "{" ? "an object" : `text that begins with ${JSON.stringify(first)}`);
}

export function partCount({ parts }: ListScan): number {
  return parts.length / 2 - 1;
}

/** Index in the body of a part's first element, and number of the part's elements. */
export function partRange({ parts }: ListScan, part: number): { readonly first: number; readonly count: number } {
  const [first = 0, next = 0] = [parts[2 * part], parts[2 * part + 2]];
  return { first, count: next - first };
}

/** @returns the elements of a part @throws SconceError `body_invalid` */
export function parsePart(bytes: Uint8Array, scan: ListScan, part: number): unknown[] {
  const { count } = partRange(scan, part);
  const text = utf8(partText(bytes, scan, part));
  // Parses one element without brackets, because adding brackets would copy the text.
  const elements = count === 1 ? [parseJson(text)] : parseJson(`[${text}]`);
  if (!Array.isArray(elements) || elements.length !== count) throw bodyInvalid("the body is not JSON");
  return elements;
}

function partText(bytes: Uint8Array, { parts }: ListScan, part: number): Uint8Array {
  const [begin = 0, next = 0] = [parts[2 * part + 1], parts[2 * part + 3]];
  return bytes.subarray(begin, next - 1);
}
