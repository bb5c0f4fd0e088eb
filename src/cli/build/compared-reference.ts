/**
 * Compares the outputs of a weights file with PyTorch's outputs of the exported program. The inputs are the example,
 * other values and other sizes, or the calls of the model's own code.
 */

import type { ModelFacts } from "../../author/define.ts";
import type { Tensor } from "../../author/tensor.ts";
import { batchStacker } from "../../engine/native/binding.ts";
import type { Runner } from "../../engine/runner.ts";
import { type ReferenceCall, type ReferenceResult, referenceOf } from "./reference.ts";
import { otherValues, zeroed } from "./trial-items.ts";
import type { SizedItem } from "./weights-facts.ts";

/** The sums of comparisons with PyTorch. */
export class ComparedReference {
  /** Number of batches or calls that the weights ran. If only PyTorch refuses a batch, the batch counts as a difference. */
  compared = 0;
  /** Number of batches that both the weights and PyTorch refused. */
  refused = 0;
  /** Number of batches whose differences PyTorch's own runs explain. */
  explained = 0;
  /** Why there is no comparison, or none of some weights; undefined if all were compared. */
  missing: string | undefined;
  readonly differences: string[] = [];

  constructor(missing?: string) {
    this.missing = missing;
  }

  /** Compares calls of one program. */
  async add(path: string, calls: readonly NamedCall[]): Promise<this> {
    const reference = await referenceOf(path, calls);
    this.missing ??= reference.missing;
    for (const [i, result] of (reference.results ?? []).entries()) {
      const { what = "", outputs } = calls[i] ?? {};
      // Without outputs of the weights there is nothing to compare.
      if (outputs === undefined) this.refused += "refused" in result ? 1 : 0;
      else {
        this.compared += 1;
        if ("explained" in result && result.explained > 0) this.explained += 1;
        const difference = differenceIn(Object.keys(outputs), result);
        if (difference !== undefined) this.differences.push(`with ${what}, ${difference}`);
      }
    }
    return this;
  }
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
  /** Whether the schema allows any number in an input, so that trials may use values outside the example's range. */
  readonly isFree?: boolean;
}

export interface NamedCall extends ReferenceCall {
  /** How the call differs from the example, for messages. */
  readonly what: string;
}

export async function compareWithReference(runner: Runner, comparing: Comparing): Promise<ComparedReference> {
  const { path, tensors, item, sizes, maxBatchSize, leastRows = 1, isFree = true } = comparing;
  const several = maxBatchSize < 2 ? [] : [item, zeroed(item)].slice(0, maxBatchSize);
  const batches: { readonly what: string; readonly batch: readonly (readonly Tensor[])[] }[] = [
    { what: "the example", batch: [item] },
    ...(several.length === 0 ? [] : [{ what: `a batch of ${several.length}`, batch: several }]),
    ...otherValues(item, isFree).map(({ change, item: other }) => ({
      what: `the example with its values ${change}`,
      batch: [other],
    })),
    ...sizes.map(({ name, size, item: other }) => ({ what: `${name} = ${size}`, batch: [other] })),
  ];
  const stack = batchStacker(tensors.inputs);
  const names = Object.keys(tensors.outputs);
  const calls: NamedCall[] = [];
  for (const { what, batch } of batches) {
    const given = await runner.run(batch).catch(() => undefined);
    const outputs = given && Object.fromEntries(names.flatMap((name, i) => (given[i] ? [[name, given[i]]] : [])));
    const rows = Math.max(leastRows, batch.length);
    calls.push({ what, inputs: stack(filled(batch, rows)), outputs, rows });
  }
  return new ComparedReference().add(path, calls);
}

type Item = readonly Tensor[];

function filled(batch: readonly Item[], rows: number): readonly Item[] {
  const last = batch.at(-1) ?? [];
  return [...batch, ...Array<Item>(Math.max(0, rows - batch.length)).fill(last)];
}

function differenceIn(names: readonly string[], result: ReferenceResult): string | undefined {
  if ("refused" in result) return `PyTorch refuses what these weights take: ${result.refused}`;
  const [first] = result.differing;
  return first && `output "${names[first.output] ?? first.output}" ${first.text}`;
}
