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

/** All inputs as an array. Works only before the first `drop`. */
export function toArray(inputs: InputList): unknown[] {
  return Array.from({ length: inputs.length }, (_, index) => inputs.get(index));
}
