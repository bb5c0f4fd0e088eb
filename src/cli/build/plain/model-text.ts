/** Generates a model.ts for a weights file. The model takes arrays and returns arrays. */
import type { TensorSpec, TensorSpecs } from "../../../author/tensor.ts";
import { type FreeSize, specsOf, type TensorInput } from "./tensor-input.ts";

export interface PlainModel {
  readonly name: string;
  /** Name of the weights file beside model.ts. */
  readonly weights: string;
  readonly inputs: readonly TensorInput[];
  readonly outputs: TensorSpecs;
  readonly batchSize: number;
  /** The device for which the weights were compiled; undefined for weights that run on any device. */
  readonly device: string | undefined;
}

export function modelText({ name, weights, inputs, outputs, batchSize, device }: PlainModel): string {
  const ins = Object.entries(specsOf(inputs));
  const outs = Object.entries(outputs);
  const dtypes = [...ins, ...outs].map(([, { dtype }]) => dtype);
  const names = [...new Set(["defineModel", "ndarray", "z", ...dtypes])].sort();
  return `/** Takes the inputs of ${weights} as arrays, and returns its outputs as arrays. */
import { ${names.join(", ")} } from "sconce";

// Sizes of one item, without the batch dimension.
const inputs = {
${ins.map(([name, spec]) => `  ${name}: ${specText(spec)},`).join("\n")}
};
const outputs = {
${outs.map(([name, spec]) => `  ${name}: ${specText(spec)},`).join("\n")}
};

export default defineModel({
  name: ${JSON.stringify(name)},
  input: z.object({ ${fields("inputs", ins)} }),
  output: z.object({ ${fields("outputs", outs)} }),
  tensors: { inputs, outputs },
  weights: ${JSON.stringify(weights)},
  batchSize: ${batchSize},${device === undefined ? "" : `\n  device: ${JSON.stringify(device)},`}
  example: { ${inputs.map((input) => `${input.name}: ${exampleText(input)}`).join(", ")} },
  preprocess: (input) => input,
  postprocess: (rows) => rows,
});
`;
}

function specText({ dtype, dims }: TensorSpec): string {
  return `${dtype}(${dims.map((dim) => JSON.stringify(dim)).join(", ")})`;
}

function fields(table: string, specs: readonly (readonly [string, unknown])[]): string {
  return specs.map(([name]) => `${name}: ndarray(${table}.${name})`).join(", ");
}

/** The example as TypeScript. Floats are 0.5, because dividing by the sum or norm of zeros would give NaN. */
function exampleText({ dtype, sizes }: TensorInput): string {
  const value = dtype === "bool" ? "false" : dtype.includes("float") ? "0.5" : "0";
  return sizes
    .slice(1)
    .reduceRight<string>(
      (inner, size) => `Array(${typeof size === "number" ? size : exampleSize(size)}).fill(${inner})`,
      value,
    );
}

function exampleSize({ min, max, hint = 16 }: FreeSize): number {
  return Math.min(max, Math.max(min, hint));
}
