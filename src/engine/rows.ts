/** Splits the outputs of a batch into rows. Each row has separate memory and no padding. */
import { stack } from "../author/stack.ts";
import { countOf, ModelTensor, type Tensor, type TensorData, type TensorSpecs } from "../author/tensor.ts";

/** The outputs of one item by name, without the batch dimension. */
export type Rows = Readonly<Record<string, ModelTensor>>;

export type RowParting = (outputs: readonly Tensor[], i: number, padded: ReadonlyMap<string, number>) => Rows;

/**
 * Creates the function that splits a model's outputs.
 * A padded dimension of an output has the name of an input's dimension, and is cut to its size. So the item's shape
 * does not depend on other items of the batch.
 * @returns a function for row `i` of a batch and the item's padded sizes. Each row has separate memory. Call it once
 * for each row, because it moves data in place.
 */
export function rowParting(specs: TensorSpecs): RowParting {
  const plans = Object.entries(specs).map(([name, { dims }]) => ({
    name,
    padded: dims.flatMap((dim, at) => (typeof dim === "object" ? [{ at, name: dim.name }] : [])),
  }));
  return (outputs, i, sizes) => {
    const rows: Record<string, ModelTensor> = {};
    for (let j = 0; j < plans.length; j++) {
      const plan = plans[j];
      const output = outputs[j];
      if (plan === undefined || output === undefined) continue;
      const { dtype, data } = output;
      const size = data.length / (output.shape[0] ?? 1);
      let shape = output.shape.slice(1);
      for (const { at, name } of plan.padded) {
        shape = cut(data, { begin: i * size, shape, at, size: sizes.get(name) ?? Infinity });
      }
      const kept = plan.padded.length === 0 ? size : countOf(shape);
      rows[plan.name] = new ModelTensor(dtype, shape, data.slice(i * size, i * size + kept));
    }
    return rows;
  };
}

export function stackedRows(items: readonly (readonly Tensor[])[]): readonly Tensor[] {
  const [first = [], ...others] = items;
  return first.map(({ dtype, shape, data }, j) => {
    if (others.length === 0) return { dtype, shape: [1, ...shape], data };
    return stack(items.flatMap((tensors) => tensors[j] ?? []));
  });
}

export function sizesOf(tensors: readonly Tensor[]): string {
  return tensors.map(({ shape }) => shape.join()).join(";");
}

interface Cut {
  readonly begin: number;
  readonly shape: number[];
  readonly at: number;
  readonly size: number;
}

/** Shortens one dimension of a row to `size`, moving the elements in place. @returns the new shape */
function cut(data: TensorData, { begin, shape, at, size }: Cut): number[] {
  const before = shape[at] ?? 0;
  if (before <= size) return shape;
  const inner = countOf(shape.slice(at + 1));
  const [kept, given] = [size * inner, before * inner];
  for (let i = 1; i < countOf(shape.slice(0, at)); i++) {
    data.copyWithin(begin + i * kept, begin + i * given, begin + i * given + kept);
  }
  return shape.with(at, size);
}
