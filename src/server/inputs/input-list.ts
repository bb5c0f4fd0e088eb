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
