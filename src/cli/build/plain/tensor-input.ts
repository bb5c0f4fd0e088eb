/** Tensor inputs of weights, and their notation on the command line: `--input x=float32[N,784]`. */
import { statSync } from "node:fs";
import { z } from "zod";
import { type DType, isDType, type TensorSpecs } from "../../../author/tensor.ts";
import { listOption } from "../../../base/option.ts";

/** A size that may differ between calls. */
export interface FreeSize {
  readonly name: string;
  readonly min: number;
  /** Largest size; Infinity without a limit. */
  readonly max: number;
  /** A size that is known to work. */
  readonly hint?: number;
}

export interface TensorInput {
  readonly name: string;
  readonly dtype: DType;
  /** Sizes of a batch. The batch dimension is the first. */
  readonly sizes: readonly (number | FreeSize)[];
}

/** The inputs of one item, by name: the sizes without the batch dimension. */
export function specsOf(inputs: readonly TensorInput[]): TensorSpecs {
  const specs = inputs.map(({ name, dtype, sizes }) => {
    const dims = sizes.slice(1).map((size) => (typeof size === "number" ? size : size.name));
    return [name, { dtype, dims }] as const;
  });
  return Object.fromEntries(specs);
}

export interface GivenInput extends TensorInput {
  readonly text: string;
}

const form = "must be NAME=DTYPE[SIZES], with the batch dimension first, like x=float32[N,784]";

export const inputForm = "--input x=float32[N,784]";

export const inputOption = listOption<GivenInput>({
  description:
    "An input tensor of TorchScript weights, which do not describe their inputs: x=float32[N,784]. Repeat the option in the order of forward's arguments. The first size is the batch; a name such as N stands for any size",
  valueHint: "tensor",
  variable: "SCONCE_MODEL_INPUT",
  parse: z.string().transform((text, { addIssue }) => {
    const input = parseInput(text);
    if (input !== undefined) return input;
    addIssue(form);
    return z.NEVER;
  }),
});

function parseInput(text: string): GivenInput | undefined {
  const [, name = "", dtype = "", list = ""] = /^([A-Za-z_]\w*)=([a-z]+\d*)\[([^\]]+)\]$/.exec(text.trim()) ?? [];
  const sizes = list.split(",").map((size) => sizeOf(size.trim()));
  if (!isDType(dtype) || sizes.includes(undefined)) return undefined;
  return { text, name, dtype, sizes: sizes.filter((size) => size !== undefined) };
}

function sizeOf(text: string): number | FreeSize | undefined {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  return /^[A-Za-z_]\w*$/.test(text) ? { name: text, min: 1, max: Number.POSITIVE_INFINITY } : undefined;
}

export function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** A batch size that a weights file fixes, or the author in --input. */
export interface FixedBatch {
  readonly file: string;
  readonly rows: number;
  /** Whether --input gives the batch size. Otherwise the file fixes it. */
  readonly isChosen: boolean;
}

export function fixedBatchText({ file, rows, isChosen }: FixedBatch): string {
  const given = isChosen ? ", or name it in --input" : "";
  return `The batch of ${file} is fixed at ${rows}: leave the first size free where you export it${given}`;
}
