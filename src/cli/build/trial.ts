/**
 * Trial runs of a model's example. Except for rounding, its outputs must be equal in a second run, in a batch with
 * another item, and in a batch with a longer item.
 */

import type { ModelFacts } from "../../author/define.ts";
import { type Dim, pad, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { itemCheck } from "../../engine/item-check.ts";
import { rowParting, stackedRows } from "../../engine/rows.ts";
import type { Runner, Stepper } from "../../engine/runner.ts";
import { type Difference, differenceOf, text } from "../../pipeline/difference.ts";
import type { ItemPipeline } from "../../pipeline/item-pipeline.ts";
import { wholeText } from "../../pipeline/output-encoder.ts";
import { noSignal, type PreparedExample } from "../../pipeline/set-up.ts";
import { halved, lengthened, nudged, otherValues, zeroed } from "./trial-items.ts";

export interface Trial {
  readonly tensors: ModelFacts["tensors"];
  /** The tensors of the example, made by two calls of `preprocess`. */
  readonly items: readonly [readonly Tensor[], readonly Tensor[]];
  /** Largest batch that the author declared. Undefined: the operator may choose any. */
  readonly maxBatchSize: number | undefined;
  /** Whether the weights run on the CPU. On a GPU, an item too long for the weights breaks all later runs. */
  readonly isOnCpu: boolean;
  /** Whether the schema allows any number in an input, so that trials may use values outside the example's range. */
  readonly isFree: boolean;
}

/** A difference of an output that exceeds rounding, and its cause. */
export interface OutputFault {
  readonly kind: "random" | "mixed" | "padding";
  readonly message: string;
}

/**
 * Runs the trials, and compares each output with the output of the same item alone.
 * @returns at most one fault for each output
 * @throws SconceError if a run fails
 */
export async function tryOutputs(runner: Runner, trial: Trial): Promise<OutputFault[]> {
  const { tensors, items, maxBatchSize, isOnCpu } = trial;
  const { inputs, outputs } = tensors;
  const [item, again] = items;
  const alone = await runner.run([item]);
  const repeated = [await runner.run([again])];
  await runOthers(runner, trial);
  repeated.push(await runner.run([again]));
  // A model with `step` may never end for an item of zeros.
  const other = runner.stepper === undefined ? zeroed(item) : item;
  const batch = (maxBatchSize ?? 2) < 3 ? [other, item] : [item, other, item];
  const runTogether = () => runner.run(batch).catch(() => runner.run(batch.map(() => item)));
  // An error of weights that refuse batches is thrown only if the author declared a batch size.
  const together = await (maxBatchSize === undefined
    ? runTogether().catch(() => undefined)
    : maxBatchSize > 1
      ? runTogether()
      : undefined);
  const isPadded = maxBatchSize !== 1 && isOnCpu;
  const lengths = isPadded ? await besideLonger(runner, trial, alone) : [];
  const fix = maxBatchSize === undefined ? "; if items have to run alone, declare batchSize: 1" : "";
  const part = rowParting(cutToOwn(outputs));
  const sizes = new Map([...itemCheck(inputs)(named(inputs, item)).padded, ...freeSizes(outputs, alone)]);
  const own = ({ change, item: each, ...runs }: BesideLonger) => ({
    change,
    item: each,
    runs,
    alone: part(structuredClone(runs.alone), 0, sizes),
    beside: part(structuredClone(runs.beside), 0, sizes),
  });
  const rowsOfLengths = lengths.map(own);
  /** Whether more elements differ than near ties of the item explain. The measurement runs only if some differ. */
  const isOff = async ({ count }: Difference, i: number, each = item, ownAlone = alone) =>
    count > 0 && count > 2 * ((await nearTies(runner, each, ownAlone))[i] ?? 0);
  const trying = Object.keys(outputs).map(async (name, i): Promise<OutputFault | undefined> => {
    const expected = alone[i];
    const rows = batch.flatMap((each, row) => (each === item ? [rowOf(together?.[i], row)] : []));
    const random = differenceOf(
      expected,
      repeated.map((outputs) => rowOf(outputs[i], 0)),
    );
    const mixed = differenceOf(expected, rows);
    const filled = rowsOfLengths.flatMap(({ change, item: each, runs, ...cut }) => {
      const difference = differenceOf(cut.alone[name], [cut.beside[name]]);
      return [{ change, difference, each, alone: runs.alone }];
    });
    if (random.count > 0) {
      const message = `output "${name}" differs ${text(random)} when the example runs again: the weights or preprocess are random (dropout that tracing kept?), or keep a state (a buffer that \`forward\` changes?)`;
      return { kind: "random", message };
    }
    if (!(await isOff(mixed, i))) {
      for (const { change, difference, each, alone: ownAlone } of filled) {
        if (!(await isOff(difference, i, each, ownAlone))) continue;
        const values = change === "" ? "" : ` with its values ${change}`;
        const message = `output "${name}" differs ${text(difference)} when the example${values} runs beside a longer item: the padding of the shorter item changes its output (a mean or maximum over a padded dimension, or attention without a mask?)${fix}`;
        return { kind: "padding", message };
      }
      return undefined;
    }
    const message = `output "${name}" differs ${text(mixed)} when the example runs in a batch: the weights mix the items of a batch (a softmax or mean over the first dimension?)${fix}`;
    return { kind: "mixed", message };
  });
  return (await Promise.all(trying)).filter((fault) => fault !== undefined);
}

/**
 * Runs items with other values between two runs of the example: weights that keep a part of an item then give the
 * example other outputs. Weights may refuse these values. Items of a model with `step` might never end.
 */
async function runOthers(runner: Runner, { items: [item] }: Trial): Promise<void> {
  if (runner.stepper !== undefined) return;
  for (const other of [zeroed(item), halved(item) ?? item]) await runner.run([other]).catch(() => undefined);
}

/** Number of runs with nearly equal inputs. */
const TIE_RUNS = 4;

/**
 * Counts the elements of each output that rounding decides, as for `argmax` and `topk` of nearly equal values. Changes
 * the item's floats by a hundred-thousandth.
 * @returns for each output the largest count of elements that differ from `alone`; zeros for an item of integers
 */
export async function nearTies(runner: Runner, item: readonly Tensor[], alone: readonly Tensor[]): Promise<number[]> {
  const counts = alone.map(() => 0);
  for (let seed = 1; seed <= TIE_RUNS; seed++) {
    const other = nudged(item, seed);
    const given = other && (await runner.run([other]).catch(() => undefined));
    if (given === undefined) break;
    for (const [i, expected] of alone.entries())
      counts[i] = Math.max(counts[i] ?? 0, differenceOf(expected, [given[i]]).count);
  }
  return counts;
}

export interface PostprocessTrial {
  readonly model: Pick<ModelFacts, "tensors">;
  readonly pipeline: Pick<ItemPipeline, "finish" | "part" | "encoder">;
  /** The example, prepared by two calls: the model's code may change its input. */
  readonly examples: readonly [PreparedExample, PreparedExample];
  /** Outputs of the example alone. */
  readonly results: readonly Tensor[];
}

/**
 * Calls `postprocess` twice with the same tensors.
 * @returns a message about different outputs; undefined for equal outputs
 * @throws SconceError of `postprocess`, or of an invalid output
 */
export async function tryPostprocess(trial: PostprocessTrial): Promise<string | undefined> {
  const { model, pipeline, examples, results } = trial;
  const [checkOf, part] = [itemCheck(model.tensors.inputs), rowParting(model.tensors.outputs)];
  const textOf = async ({ input, tensors }: PreparedExample) => {
    // Each call needs fresh rows, because splitting changes the data in place.
    const rows = part(structuredClone(results), 0, checkOf(tensors).padded);
    return wholeText(pipeline.encoder.encode(await pipeline.finish(rows, { input, signal: noSignal })));
  };
  const [one, again] = [await textOf(examples[0]), await textOf(examples[1])];
  if (one === again) return undefined;
  return "the output differs when postprocess runs twice on the same tensors: it is random, or keeps a state";
}

/**
 * Runs `predict`, and makes a part of each yielded set of rows.
 * @throws SconceError of `predict` or `postprocessPart`, or of an invalid part
 */
export async function tryParts(
  runner: Runner,
  { model, pipeline, example }: Pick<PostprocessTrial, "pipeline" | "model"> & { readonly example: PreparedExample },
): Promise<void> {
  const { inputs, parts } = model.tensors;
  const { tensors, padded } = itemCheck(inputs)(example.tensors);
  const yielded: (readonly Tensor[])[] = [];
  await runner.run([tensors], { isOver: false, part: (rows) => yielded.push(rows) });
  for (const [sequence, rows] of yielded.entries()) {
    await pipeline.part(rowParting(parts)(rows, 0, padded), { input: example.input, signal: noSignal }, sequence);
  }
}

/**
 * Copies the output declarations with padded dimensions in place of free ones, so that `rowParting` cuts rows in them,
 * too. Beside a longer item, a free dimension may be longer than alone, for example after a strided convolution.
 */
function cutToOwn(outputs: TensorSpecs): TensorSpecs {
  const cut = ([name, { dtype, dims }]: [string, TensorSpecs[string]]) => {
    const paddedDims = dims.map((dim, at) => (typeof dim === "string" ? pad(freeName(name, at), 0) : dim));
    return [name, { dtype, dims: paddedDims }] as const;
  };
  return Object.fromEntries(Object.entries(outputs).map(cut));
}

/** Sizes of the outputs' free dimensions when the item runs alone. */
function freeSizes(outputs: TensorSpecs, alone: readonly Tensor[]): [string, number][] {
  return Object.entries(outputs).flatMap(([name, { dims }], i) =>
    dims.flatMap((dim, at): [string, number][] =>
      typeof dim === "string" ? [[freeName(name, at), alone[i]?.shape[at + 1] ?? 0]] : [],
    ),
  );
}

/** Unique name for a free dimension of an output: two outputs may use one name for different sizes. */
function freeName(output: string, at: number): string {
  return `${output}[${at}]`;
}

function named(specs: TensorSpecs, item: readonly Tensor[]): Readonly<Record<string, Tensor>> {
  return Object.fromEntries(Object.keys(specs).flatMap((name, i) => (item[i] ? [[name, item[i]]] : [])));
}

/**
 * Ways to lengthen the example. The first is about the longest item that may share a batch with the example
 * (item-queue.ts). The second is for weights with a size limit near the example's size.
 */
const growths: readonly ((size: number) => number)[] = [
  (size) => Math.max(size + 1, Math.floor(Math.SQRT2 * size)),
  (size) => size + 1,
];

/** Items of a model with `step` share a batch whatever their sizes, and a longer item lets a missing mask show. */
const stepGrowths: readonly ((size: number) => number)[] = [(size) => 4 * size + 8, (size) => size + 1];

interface BesideLonger {
  /** How the values differ from the values of the example; empty for the example. */
  readonly change: string;
  readonly item: readonly Tensor[];
  readonly alone: readonly Tensor[];
  readonly beside: readonly Tensor[];
}

/**
 * Runs the example, and variants with other values, beside a longer item. An item of a model with `step` is longer in
 * its free sizes, too, because the model fills its states up.
 */
async function besideLonger(
  runner: Runner,
  { tensors: { inputs }, items: [item], isFree }: Trial,
  alone: readonly Tensor[],
): Promise<BesideLonger[]> {
  const grows = (dim: Dim) => typeof dim === "object" || (runner.stepper !== undefined && typeof dim === "string");
  if (!Object.values(inputs).some(({ dims }) => dims.some(grows))) return [];
  for (const grow of runner.stepper === undefined ? growths : stepGrowths) {
    const run = (each: readonly Tensor[]) => {
      const both = [each, lengthened(inputs, each, (size, dim) => (grows(dim) ? grow(size) : size))];
      return (runner.stepper ? outputsOfFirst(runner.stepper, both) : runner.run(both)).catch(() => undefined);
    };
    const beside = await run(item);
    if (beside === undefined) continue;
    const found: BesideLonger[] = [{ change: "", item, alone, beside }];
    for (const { change, item: other } of otherValues(item, isFree)) {
      const ownAlone = await runner.run([other]).catch(() => undefined);
      const ownBeside = ownAlone && (await run(other));
      if (ownAlone && ownBeside) found.push({ change, item: other, alone: ownAlone, beside: ownBeside });
    }
    return found;
  }
  return [];
}

/** Steps of an item beside another one, which may keep it from its end. */
const MAX_STEPS = 10_000;

/**
 * Runs items of a model with `step` together until the first one ends, because outputs of the others may have other
 * sizes. @returns undefined if it does not end
 */
async function outputsOfFirst(
  stepper: Stepper,
  items: readonly (readonly Tensor[])[],
): Promise<readonly Tensor[] | undefined> {
  let states: unknown[] = [];
  try {
    for (const tensors of items) states.push(await stepper.begin(tensors));
    for (let steps = 0; steps < MAX_STEPS; steps++) {
      const [first, ...others] = await stepper.step(states);
      if (first?.outputs !== undefined) return stackedRows([first.outputs]);
      states = [first?.state, ...others.flatMap(({ outputs, state }) => (outputs === undefined ? [state] : []))];
      stepper.free(states);
    }
    return undefined;
  } finally {
    stepper.free([]);
  }
}

function rowOf(output: Tensor | undefined, row: number): Tensor | undefined {
  if (output === undefined) return undefined;
  const size = output.data.length / (output.shape[0] ?? 1);
  return { ...output, shape: [1, ...output.shape.slice(1)], data: output.data.subarray(row * size, (row + 1) * size) };
}
