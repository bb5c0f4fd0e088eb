/**
 * Compares the outputs of weights with the original exported program, run by PyTorch: for the example, other values and
 * other sizes.
 */

import type { ModelFacts } from "../../author/define.ts";
import type { Tensor } from "../../author/tensor.ts";
import { messageOf } from "../../base/errors.ts";
import { batchStacker } from "../../engine/native/binding.ts";
import type { Runner } from "../../engine/runner.ts";
import { beyondReference, differenceOf, text } from "../../pipeline/difference.ts";
import { type ReferenceResult, referenceOf } from "./reference.ts";
import { otherValues, zeroed } from "./trial-items.ts";
import type { SizedItem } from "./weights-facts.ts";

export interface ComparedReference {
  /** Number of batches that the weights ran. A batch that only PyTorch refused is one of them, and a difference. */
  readonly compared: number;
  /** Number of batches that both the weights and PyTorch refused. */
  readonly refused: number;
  /** Why there is no comparison; undefined if there is one. */
  readonly missing: string | undefined;
  readonly differences: readonly string[];
}

interface Comparing {
  /** Path of the exported program. */
  readonly path: string;
  readonly tensors: Omit<ModelFacts["tensors"], "parts">;
  readonly item: readonly Tensor[];
  readonly sizes: readonly SizedItem[];
  /** The largest batch size that the weights have run. */
  readonly maxBatchSize: number;
  /** The smallest batch that PyTorch runs. Copies of the last item fill up smaller batches, as in serving. */
  readonly leastRows?: number;
}

interface Compared {
  /** How the batch differs from the example, for messages. */
  readonly what: string;
  readonly batch: readonly (readonly Tensor[])[];
}

export async function compareWithReference(runner: Runner, comparing: Comparing): Promise<ComparedReference> {
  const { path, tensors, item, sizes, maxBatchSize, leastRows = 1 } = comparing;
  const several = maxBatchSize < 2 ? [] : [item, zeroed(item)].slice(0, maxBatchSize);
  const batches: Compared[] = [
    { what: "the example", batch: [item] },
    ...(several.length === 0 ? [] : [{ what: `a batch of ${several.length}`, batch: several }]),
    ...otherValues(item).map(({ change, item: other }) => ({
      what: `the example with its values ${change}`,
      batch: [other],
    })),
    ...sizes.map(({ name, size, item: other }) => ({ what: `${name} = ${size}`, batch: [other] })),
  ];
  const stack = batchStacker(tensors.inputs);
  const reference = await referenceOf(
    path,
    batches.map(({ batch }) => stack(filled(batch, leastRows))),
  );
  const counts = { compared: 0, refused: 0 };
  const differences: string[] = [];
  for (const [i, result] of (reference.results ?? []).entries()) {
    const { what, batch } = batches[i] ?? { what: "", batch: [] };
    const given = await runner.run(batch).catch(messageOf);
    if (result.outputs === undefined && typeof given === "string") counts.refused += 1;
    // `given` is a message if the weights refuse the batch. Then there are no outputs to compare.
    else if (typeof given !== "string") {
      counts.compared += 1;
      const difference = differenceIn(Object.keys(tensors.outputs), given, cut(result, leastRows, batch.length));
      if (difference !== undefined) differences.push(`with ${what}, ${difference}`);
    }
  }
  return { ...counts, missing: reference.missing, differences };
}

type Item = readonly Tensor[];

function filled(batch: readonly Item[], rows: number): readonly Item[] {
  const last = batch.at(-1) ?? [];
  return [...batch, ...Array<Item>(Math.max(0, rows - batch.length)).fill(last)];
}

/** Cuts the outputs of a batch that was filled up to `rows` back to the first `count` rows. */
function cut(result: ReferenceResult, rows: number, count: number): ReferenceResult {
  if (result.outputs === undefined || count >= rows) return result;
  const first = ({ shape: [size, ...dims], ...tensor }: Tensor): Tensor =>
    size === rows
      ? { ...tensor, shape: [count, ...dims], data: tensor.data.subarray(0, (tensor.data.length / rows) * count) }
      : { ...tensor, shape: [size ?? 0, ...dims] };
  return { outputs: result.outputs.map(({ name, tensor }) => ({ name, tensor: first(tensor) })) };
}

function differenceIn(
  names: readonly string[],
  given: readonly Tensor[],
  { outputs, refused }: ReferenceResult,
): string | undefined {
  if (outputs === undefined) return `PyTorch refuses what these weights take: ${refused}`;
  for (const [i, name] of names.entries()) {
    const expected = (outputs.find((output) => output.name === name) ?? outputs[i])?.tensor;
    const own = given[i];
    if (expected?.dtype !== own?.dtype) return `output "${name}" is ${own?.dtype}, and ${expected?.dtype} in PyTorch`;
    const difference = differenceOf(expected, [own]);
    if (beyondReference(expected)(difference))
      return `output "${name}" differs by up to ${text(difference)} from PyTorch's`;
  }
  return undefined;
}
