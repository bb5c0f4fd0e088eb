/**
 * The tensors of a model's example input, and the outputs that the build computed for it. A server computes the outputs
 * again before warm-up, and compares.
 */

import { arrayTypes, bytesOfData, type Tensor, type TensorSpecs } from "../author/tensor.ts";
import * as z from "../author/z.ts";
import { SconceError } from "../base/errors.ts";
import type { Runner } from "../engine/runner.ts";
import { differenceOf, text, tolerances } from "./difference.ts";

export interface ExampleRun {
  /** Tensors of one item, in the order of the model's inputs. */
  readonly inputs: readonly Tensor[];
  /** Outputs of a batch with only this item, in the order of the model's outputs. */
  readonly outputs: readonly Tensor[];
}

export interface Golden extends ExampleRun {
  /** For each output, the most elements that differed between runs at build by more than rounding. */
  readonly differing: readonly number[];
}

/** Maximum bytes of an encoded example in a package. A larger one is left out. */
export const MAX_GOLDEN_BYTES = 32 * 2 ** 20;

const tensorSchema = z.object({
  dtype: z.enum(Object.keys(arrayTypes) as [keyof typeof arrayTypes]),
  shape: z.array(z.int().nonnegative()),
});
const headerSchema = z.object({
  inputs: z.array(tensorSchema),
  outputs: z.array(tensorSchema),
  differing: z.array(z.int().nonnegative()).default([]),
});

const LINE_END = 0x0a;

/**
 * Encodes the example as a line of JSON with dtypes and shapes, then the elements of all tensors, little-endian and
 * without gaps.
 */
export function encodeGolden({ inputs, outputs, differing }: Golden): Uint8Array {
  const shapes = (tensors: readonly Tensor[]) => tensors.map(({ dtype, shape }) => ({ dtype, shape }));
  const header = `${JSON.stringify({ inputs: shapes(inputs), outputs: shapes(outputs), differing })}\n`;
  return Buffer.concat([Buffer.from(header), ...[...inputs, ...outputs].map(({ data }) => bytesOfData(data))]);
}

/** Reads the format that `encodeGolden` writes. @throws SconceError `store_corrupt` */
export function decodeGolden(bytes: Uint8Array): Golden {
  try {
    const end = bytes.indexOf(LINE_END);
    const header = headerSchema.parse(JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))));
    let at = end + 1;
    const tensors = (specs: typeof header.inputs) =>
      specs.map(({ dtype, shape }): Tensor => {
        const length = shape.reduce((count, size) => count * size, arrayTypes[dtype].BYTES_PER_ELEMENT);
        if (at + length > bytes.length) throw new RangeError("cut off");
        const { buffer } = bytes.slice(at, at + length);
        at += length;
        return { dtype, shape, data: new arrayTypes[dtype](buffer) };
      });
    return { inputs: tensors(header.inputs), outputs: tensors(header.outputs), differing: header.differing };
  } catch (error) {
    throw new SconceError("store_corrupt", "the outputs of the example in the package can't be read", { cause: error });
  }
}

/**
 * Runs the example with each runner, and compares its outputs.
 * @throws SconceError `weights_invalid` for an output that differs by more than rounding explains, or the error of a
 * run
 */
export async function compareGolden(
  runners: readonly Pick<Runner, "run">[],
  outputs: TensorSpecs,
  golden: Golden,
): Promise<void> {
  for (const runner of runners) {
    const given = await runner.run([golden.inputs]);
    for (const [i, name] of Object.keys(outputs).entries()) {
      const expected = golden.outputs[i];
      const difference = differenceOf(expected, [given[i]]);
      const allowed = allowedCount(expected, golden.differing[i] ?? 0);
      if (difference.count <= allowed) continue;
      throw new SconceError(
        "weights_invalid",
        `output "${name}" of the example differs ${text(difference)} from the output of the build; at most ${allowed} may differ, as runs at build differed in ${golden.differing[i] ?? 0}: if this machine has another processor, device or libtorch than the build's, build the model here; otherwise the weights or their files have changed`,
      );
    }
  }
}

/** The number of elements that may differ. A hundredth of the integers may always differ, because near ties, as in `argmax`, depend on the processor. */
function allowedCount(expected: Tensor | undefined, differing: number): number {
  const isChoice = expected !== undefined && tolerances[expected.dtype] === 0;
  return Math.max(2 * differing, isChoice ? Math.floor(expected.data.length / 100) : 0);
}
