/** Checks a large body part by part, and parses a part again when its first input runs. So the values of all parts are never in memory together. */
import { SconceError } from "../../base/errors.ts";
import { COST_RULE, type ListPart, MAX_COST, partsOfList, sizeOfJson } from "../../base/json-text.ts";
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
import type { InputList } from "./input-list.ts";

/** Minimum bytes of a group of elements that is checked together, in a fraction of a millisecond. */
const PART_BYTES = 16 * 1024;
const SPACE = 0x20;
/** Maximum bytes of one input, which the event loop reads at once: 1 to 1.3 ms a MiB. A file of 27 MiB fits as a data URI. */
const MAX_INPUT_BYTES = 36 * 2 ** 20;
/** Maximum size of an invalid body that is parsed as a whole, to get the parser's message. */
const MAX_WHOLE_BYTES = 2 ** 20;

interface Checked {
  readonly parts: readonly ListPart[];
  /** Memory of the parsed values of the costliest part, in bytes. */
  readonly mostBytes: number;
}

/**
 * Checks a body. Each part is parsed, validated and dropped. Yields after each part.
 * @throws SconceError `body_invalid` or `inputs_invalid`, as for a small body
 */
export function* checkParts(
  bytes: Uint8Array<ArrayBuffer>,
  decoder: InputDecoder,
  { maxInputs, partBytes = PART_BYTES }: { readonly maxInputs: number; readonly partBytes?: number },
): Generator<void, Checked> {
  const faults = new Faults();
  const parts: ListPart[] = [];
  let [count, mostBytes] = [0, 0];
  const scan = partsOfList(bytes, partBytes);
  let step = scan.next();
  for (; !step.done; step = scan.next()) {
    if (step.value !== undefined) {
      const part = step.value;
      parts.push(part);
      count += part.count;
      if (count <= maxInputs && !faults.isFull) {
        checkSize(part);
        mostBytes = Math.max(mostBytes, part.bytes);
        decoder.list(parsePart(bytes, part), part.first, faults);
      }
    }
    yield;
  }
  if (!step.value) throw notSplit(bytes, decoder, maxInputs);
  refuseTooMany(count, maxInputs);
  faults.throwIfAny();
  return { parts, mostBytes };
}

/** Refuses a part whose last element is too large: only the last element can be. @throws SconceError `inputs_invalid` */
function checkSize({ first, count, begin, end, cost }: ListPart): void {
  let detail: string | undefined;
  if (end - begin > MAX_INPUT_BYTES)
    detail = `an input may have at most ${MAX_INPUT_BYTES} bytes of JSON; send a file by its URL`;
  else if (cost > MAX_COST)
    detail = `an input may have at most ${MAX_COST} values (${COST_RULE}); send large arrays as the base64 of their bytes, or a file by its URL`;
  if (detail !== undefined) throw inputsInvalid([{ pointer: `/${first + count - 1}`, detail }]);
}

/** The error of a body that is not a list of inputs. Parses a body that is small enough, for the parser's message. */
function notSplit(bytes: Uint8Array, decoder: InputDecoder, maxInputs: number): SconceError {
  if (bytes.length <= MAX_WHOLE_BYTES && sizeOfJson(bytes).cost <= MAX_COST) decoder.body(utf8(bytes), maxInputs);
  const first = String.fromCharCode(bytes.find((byte) => byte > SPACE) ?? SPACE);
  if (first === "[") return bodyInvalid("the body is not JSON: its list does not end at the end of the body");
  return notAList(first === "{" ? "an object" : `text that begins with ${JSON.stringify(first)}`);
}

/** @returns the elements of a part @throws SconceError `body_invalid` */
function parsePart(bytes: Uint8Array, part: ListPart): unknown[] {
  const { count } = part;
  const text = utf8(bytes.subarray(part.begin, part.end));
  // Parses one element without brackets, because adding brackets would copy the text.
  const elements = count === 1 ? [parseJson(text)] : parseJson(`[${text}]`);
  if (!Array.isArray(elements) || elements.length !== count) throw bodyInvalid("the body is not JSON");
  return elements;
}

/** The inputs of a large body. `get` decodes a part at a time. */
export class LazyInputs implements InputList {
  readonly length: number;
  readonly #bytes: Uint8Array;
  readonly #parts: readonly ListPart[];
  readonly #decoder: InputDecoder;
  readonly #inputs: unknown[];
  #nextPart = 0;
  #decodedInputs = 0;

  /** @param parts must have passed `checkParts` */
  constructor(bytes: Uint8Array, parts: readonly ListPart[], decoder: InputDecoder) {
    this.length = parts.reduce((sum, { count }) => sum + count, 0);
    this.#bytes = bytes;
    this.#parts = parts;
    this.#decoder = decoder;
    this.#inputs = new Array<unknown>(this.length);
  }

  get(index: number): unknown {
    for (let part = this.#parts[this.#nextPart]; part && index >= this.#decodedInputs; ) {
      this.#decode(part);
      part = this.#parts[++this.#nextPart];
    }
    return this.#inputs[index];
  }

  drop(index: number): void {
    this.#inputs[index] = undefined;
  }

  #decode(part: ListPart): void {
    const { first, count } = part;
    this.#decodedInputs = first + count;
    const inputs = this.#decoder.list(parsePart(this.#bytes, part), first, new Faults());
    // A schema may refuse an input that it accepted before, for example if it compares with the current time.
    if (inputs.length !== count) {
      throw new SconceError("item_failed", "the input schema accepted the input when it arrived, and refuses it now");
    }
    for (let i = 0; i < count; i++) this.#inputs[first + i] = inputs[i];
  }
}
