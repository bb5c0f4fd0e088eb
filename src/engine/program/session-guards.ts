/** The guards of a session's weights. They check each item before it is queued, as a batch of one, and each batch before it runs. */
import type { Tensor, TensorSpec, TensorSpecs } from "../../author/tensor.ts";
import { SconceError } from "../../base/errors.ts";
import { type ProgramGuards, shapesText } from "./program-guards.ts";

/** A tensor with the batch as first size. */
export type Sized = Pick<Tensor, "dtype" | "shape">;

/** Maximum rows that padding may add to a batch. */
const MOST_ADDED_ROWS = 64;

export class SessionGuards {
  readonly #guards: ProgramGuards;
  /** For each input of the program: the place of the declared input. */
  readonly #places: readonly number[];
  readonly #declared: readonly TensorSpec[];

  /**
   * @param declared the tensors in the order of a batch; none for a session that only supports `call`
   * @throws SconceError `weights_invalid` if the program takes more inputs than are declared
   */
  constructor(guards: ProgramGuards, declared: TensorSpecs) {
    const names = Object.keys(declared);
    this.#guards = guards;
    this.#declared = Object.values(declared);
    this.#places = names.length === 0 ? [...guards.inputs.keys()] : places(guards.inputs, names);
  }

  /**
   * The batch size to run with. If the guards refuse the size of the batch, this is the next accepted size, at most 64
   * larger.
   * @throws SconceError `run_failed` with the guard and the sizes if there is none
   */
  rowsFor(batch: readonly (readonly Tensor[])[]): number {
    const { length: rows } = batch;
    const [first] = batch;
    if (first === undefined || first.length !== this.#places.length) return rows;
    const tensors = first.map(({ dtype, shape }, at) => ({ dtype, shape: [rows, ...largest(shape, batch, at)] }));
    const given = this.#places.flatMap((place) => tensors[place] ?? []);
    const failed = this.#failure(given);
    if (failed === undefined) return rows;
    for (let more = rows + 1; more <= rows + MOST_ADDED_ROWS; more++) {
      for (const { shape } of given) shape[0] = more;
      if (this.#failure(given) === undefined) return more;
    }
    throw new SconceError("run_failed", failed);
  }

  /** Checks the arguments of a call of `forward`. @throws SconceError `run_failed` with the guard and the sizes */
  require(given: readonly Sized[]): void {
    if (given.length !== this.#places.length) return;
    const failed = this.#failure(given);
    if (failed !== undefined) throw new SconceError("run_failed", failed);
  }

  /** Message of the first guard that refuses the tensors. @param given the tensors in the order of the program */
  #failure(given: readonly Sized[]): string | undefined {
    const { inputs, dtypes, conditions } = this.#guards;
    const shapes: (readonly number[])[] = [];
    for (let i = 0; i < given.length; i++) {
      const { dtype, shape } = given[i] ?? { shape: [] };
      if (dtypes[i] !== undefined && dtypes[i] !== dtype)
        return `${inputs[i]}: dtype must be ${dtypes[i]}, received ${dtype}`;
      shapes.push(shape);
    }
    try {
      for (const condition of conditions) {
        const message = condition(shapes, this.#nameOf);
        if (message !== undefined) return message;
      }
      return undefined;
    } catch {
      return `a guard of the program cannot be computed for these sizes (${shapesText(inputs, shapes)})`;
    }
  }

  readonly #nameOf = (input: number, dimension: number): string | undefined => {
    const dim = this.#declared[this.#places[input] ?? -1]?.dims[dimension - 1];
    return typeof dim === "object" ? dim.name : typeof dim === "string" ? dim : undefined;
  };
}

/** The sizes of a tensor in a batch that is padded to its longest items. */
function largest(shape: readonly number[], batch: readonly (readonly Tensor[])[], at: number): readonly number[] {
  if (batch.length === 1) return shape;
  return shape.map((size, dim) => {
    let most = size;
    for (const item of batch) most = Math.max(most, item[at]?.shape[dim] ?? 0);
    return most;
  });
}

/**
 * For each input of the program: the place of the declared input with the same name, else of the next declared input
 * whose name the program lacks.
 */
function places(inputs: readonly string[], declared: readonly string[]): number[] {
  const others = [...declared.keys()].filter((place) => !inputs.includes(declared[place] ?? ""));
  return inputs.map((name) => {
    const named = declared.indexOf(name);
    const place = named >= 0 ? named : others.shift();
    if (place !== undefined) return place;
    const both = `the program takes (${inputs.join(", ")}), the model declares the inputs (${declared.join(", ")})`;
    throw new SconceError("weights_invalid", both);
  });
}
