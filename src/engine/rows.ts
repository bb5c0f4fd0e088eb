/** Parts a batch's outputs into the rows of its items, without what padding added. */
import { countOf, type Tensor, type TensorSpecs } from "../model/tensor.ts";

/** One row of each output tensor, by name, without the batch dimension. */
export type Rows = Readonly<Record<string, Tensor>>;

/**
 * Makes the parting for a model's declared outputs.
 *
 * A dimension that an output declares as padded, under the name of an input's padded dimension, is cut to the item's own size: what an
 * item gets does not depend on how long its neighbours are.
 *
 * @returns a function that gives row `i` of a batch, for an item of the given padded sizes: views of the batch's memory. It takes
 *   each row once.
 */
export function rowParting(
  specs: TensorSpecs,
): (outputs: readonly Tensor[], i: number, padded: ReadonlyMap<string, number>) => Rows {
  const plans = Object.entries(specs).map(([name, { dims }]) => ({
    name,
    padded: dims.flatMap((dim, at) => (typeof dim === "object" ? [{ at, name: dim.name }] : [])),
  }));
  return (outputs, i, sizes) => {
    const rows: Record<string, Tensor> = {};
    for (let j = 0; j < plans.length; j++) {
      const [plan, output] = [plans[j], outputs[j]];
      if (plan === undefined || output === undefined) continue;
      const size = output.data.length / (output.shape[0] ?? 1);
      const data = output.data.subarray(i * size, (i + 1) * size);
      let row: Tensor = { dtype: output.dtype, shape: output.shape.slice(1), data };
      for (const { at, name } of plan.padded) row = cut(row, at, sizes.get(name) ?? Infinity);
      rows[plan.name] = row;
    }
    return rows;
  };
}

/** Keeps the first `size` elements of a dimension; moves what is kept together within the row's own memory. */
function cut({ dtype, shape, data }: Tensor, at: number, size: number): Tensor {
  const before = shape[at] ?? 0;
  if (before <= size) return { dtype, shape, data };
  const outer = countOf(shape.slice(0, at));
  const inner = countOf(shape.slice(at + 1));
  const kept = size * inner;
  for (let i = 1; i < outer; i++) data.copyWithin(i * kept, i * before * inner, i * before * inner + kept);
  return { dtype, shape: shape.with(at, size), data: data.subarray(0, outer * kept) };
}
