/** Trial runs of a model's example: whether it gets the same outputs again, and in a batch with another item. */
import type { Runner } from "../engine/runner.ts";
import { elements } from "../model/elements.ts";
import { arrayTypes, type DType, type Tensor, type TensorSpecs } from "../model/tensor.ts";

/** What rounding may do, as a part of the largest number of an output: batches of another size are summed up in another order. */
const tolerances: Readonly<Record<DType, number>> = {
  float32: 0.01,
  float64: 0.01,
  float16: 0.05,
  bfloat16: 0.05,
  int8: 0.02,
  uint8: 0.02,
  int16: 0,
  int32: 0,
  int64: 0,
  bool: 0,
};
/** Below this a difference is none, however small the numbers. */
const LEAST_DIFFERENCE = 1e-6;

export interface Trial {
  readonly outputs: TensorSpecs;
  /** The tensors of the example, made twice. */
  readonly items: readonly [readonly Tensor[], readonly Tensor[]];
  readonly maxBatchSize: number;
}

/**
 * @returns a line for each output that a client could not count on
 * @throws SconceError of a run
 */
export async function unsteadyOutputs(runner: Runner, { outputs, items, maxBatchSize }: Trial): Promise<string[]> {
  const [item, again] = items;
  const alone = await runner.run([item]);
  const second = await runner.run([again]);
  const batch = maxBatchSize < 3 ? [other(item), item] : [item, other(item), item];
  const together =
    maxBatchSize === 1 ? undefined : await runner.run(batch).catch(() => runner.run(batch.map(() => item)));
  return Object.keys(outputs).flatMap((name, i) => {
    const expected = alone[i];
    const random = differenceOf(expected, rowOf(second[i], 0));
    if (random > 0) {
      return `output "${name}" differs by up to ${text(random)} when the example runs twice: the weights or preprocess are random (dropout that tracing kept?), or keep a state`;
    }
    if (together === undefined) return [];
    const mixed = Math.max(
      ...batch.map((each, row) => (each === item ? differenceOf(expected, rowOf(together[i], row)) : 0)),
    );
    if (mixed === 0) return [];
    return `output "${name}" differs by up to ${text(mixed)} when the example runs in a batch: the weights mix the items of a batch (a softmax or mean over the first dimension?)`;
  });
}

/** An item of the same sizes, all zero: equal rows would hide much of what batches mix. */
function other(item: readonly Tensor[]): readonly Tensor[] {
  return item.map((each) => ({ ...each, data: new arrayTypes[each.dtype](each.data.length) }));
}

function rowOf(output: Tensor | undefined, row: number): Tensor | undefined {
  if (output === undefined) return undefined;
  const size = output.data.length / (output.shape[0] ?? 1);
  return { ...output, shape: [1, ...output.shape.slice(1)], data: output.data.subarray(row * size, (row + 1) * size) };
}

/** The largest difference of two elements; 0 where it may come of rounding. */
function differenceOf(expected: Tensor | undefined, given: Tensor | undefined): number {
  if (expected === undefined || given === undefined) return 0;
  if (expected.shape.join() !== given.shape.join()) return Infinity;
  const { write } = elements[expected.dtype];
  let [difference, largest] = [0, 0];
  for (let i = 0; i < expected.data.length; i++) {
    const [one, another] = [write(expected.data[i] ?? 0), write(given.data[i] ?? 0)];
    if (one === another) continue;
    // No number: NaN, or beyond what can be told apart.
    if (one === undefined || another === undefined) return Infinity;
    difference = Math.max(difference, Math.abs(Number(one) - Number(another)));
  }
  for (const each of expected.data) largest = Math.max(largest, Math.abs(Number(write(each) ?? 0)));
  return difference <= Math.max(LEAST_DIFFERENCE, tolerances[expected.dtype] * largest) ? 0 : difference;
}

function text(difference: number): string {
  return difference === Infinity ? "more than a number can say" : String(Number(difference.toPrecision(2)));
}
