import { SconceError } from "../../base/errors.ts";
import { Faults, type InputDecoder } from "./input-decoder.ts";
import type { ListScan } from "./json-text.ts";
import { parsePart, partsOf, rangeOf } from "./large-body.ts";

/** The decoded inputs of a request: all there from the start, or each made when its turn comes. */
export interface InputList {
  readonly length: number;
  /** @returns undefined for one that was dropped */
  get(index: number): unknown;
  /** Lets go of one that is done. */
  drop(index: number): void;
}

/** Inputs that are there; it owns the list. */
export class ReadyInputs implements InputList {
  readonly #inputs: unknown[];

  constructor(inputs: unknown[]) {
    this.#inputs = inputs;
  }

  get length(): number {
    return this.#inputs.length;
  }

  get(index: number): unknown {
    return this.#inputs[index];
  }

  drop(index: number): void {
    this.#inputs[index] = undefined;
  }
}

export const noInputs: InputList = new ReadyInputs([]);

/** All of them; of none that was dropped. */
export function allOf(inputs: InputList): unknown[] {
  return Array.from({ length: inputs.length }, (_, index) => inputs.get(index));
}

export class LateInputs implements InputList {
  readonly length: number;
  readonly #bytes: Uint8Array;
  readonly #scan: ListScan;
  readonly #decoder: InputDecoder;
  readonly #inputs: unknown[];
  /** Parts before this one were decoded: inputs are begun in their order. */
  #nextPart = 0;
  /** Inputs before this one were decoded. */
  #decoded = 0;

  /** @param scan of the bytes, which were checked: their inputs fit the schema */
  constructor(bytes: Uint8Array, scan: ListScan, decoder: InputDecoder) {
    this.length = scan.count;
    this.#bytes = bytes;
    this.#scan = scan;
    this.#decoder = decoder;
    this.#inputs = new Array<unknown>(scan.count);
  }

  get(index: number): unknown {
    while (index >= this.#decoded && this.#nextPart < partsOf(this.#scan)) this.#decodePart();
    return this.#inputs[index];
  }

  drop(index: number): void {
    this.#inputs[index] = undefined;
  }

  #decodePart(): void {
    const part = this.#nextPart++;
    const { first, count } = rangeOf(this.#scan, part);
    this.#decoded = first + count;
    const faults = new Faults();
    const inputs = this.#decoder.list(parsePart(this.#bytes, this.#scan, part) ?? [], first, faults);
    // It fitted when it was checked: a schema that answers otherwise now depends on more than the input.
    if (inputs.length !== count) {
      throw new SconceError("item_failed", "the input fitted its schema when it came, and does not fit it any more");
    }
    for (let i = 0; i < count; i++) this.#inputs[first + i] = inputs[i];
  }
}
