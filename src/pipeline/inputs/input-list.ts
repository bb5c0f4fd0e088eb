import { SconceError } from "../../base/errors.ts";
import { Faults, type InputDecoder } from "./input-decoder.ts";
import type { ListScan } from "./json-text.ts";
import { parsePart, partCount, partRange, type SplitBody } from "./large-body.ts";

/** The decoded inputs of a request. An implementation may decode an input only when it is read. */
export interface InputList {
  readonly length: number;
  /** @returns the input; undefined after `drop` */
  get(index: number): unknown;
  drop(index: number): void;
}

/** Inputs that are decoded already. Takes over the array, and clears dropped elements. */
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

/** All inputs as an array. Works only before the first `drop`. */
export function toArray(inputs: InputList): unknown[] {
  return Array.from({ length: inputs.length }, (_, index) => inputs.get(index));
}

/** The inputs of a large body. `get` decodes a group of inputs at a time. */
export class LazyInputs implements InputList {
  readonly length: number;
  readonly #bytes: Uint8Array;
  readonly #scan: ListScan;
  readonly #decoder: InputDecoder;
  readonly #inputs: unknown[];
  #nextPart = 0;
  #decodedInputs = 0;

  /** @param body its parts must have passed `checkParts` */
  constructor({ bytes, scan }: SplitBody, decoder: InputDecoder) {
    this.length = scan.count;
    this.#bytes = bytes;
    this.#scan = scan;
    this.#decoder = decoder;
    this.#inputs = new Array<unknown>(scan.count);
  }

  get(index: number): unknown {
    while (index >= this.#decodedInputs && this.#nextPart < partCount(this.#scan)) this.#decodePart();
    return this.#inputs[index];
  }

  drop(index: number): void {
    this.#inputs[index] = undefined;
  }

  #decodePart(): void {
    const part = this.#nextPart++;
    const { first, count } = partRange(this.#scan, part);
    this.#decodedInputs = first + count;
    const faults = new Faults();
    const inputs = this.#decoder.list(parsePart(this.#bytes, this.#scan, part), first, faults);
    // A schema may refuse an input that it accepted before, for example if it compares with the current time.
    if (inputs.length !== count) {
      throw new SconceError("item_failed", "the input schema accepted the input when it arrived, and refuses it now");
    }
    for (let i = 0; i < count; i++) this.#inputs[first + i] = inputs[i];
  }
}
