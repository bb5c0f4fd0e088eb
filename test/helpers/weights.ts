/** Weights that Python exports, with outputs that PyTorch computes for them, stored in `.sconce/fixtures`. */
import { join } from "node:path";
import { z } from "zod";
import { arrayTypes, type DType, type Tensor, type TensorData, type TensorSpec } from "../../src/author/tensor.ts";
import { made } from "./made.ts";

/** A weights file with its declared tensors, `rows` items, and the outputs that PyTorch computes for these. */
export interface Fixture {
  readonly path: string;
  readonly inputs: Record<string, TensorSpec>;
  readonly outputs: Record<string, TensorSpec>;
  /** items[i][j] is input tensor j of item i. */
  readonly items: Tensor[][];
  /** Each output for all items, stacked: its shape is [rows, ...]. */
  readonly expected: Tensor[];
}

export interface Fixtures {
  /** Number of input items for each weights file. */
  readonly rows: number;
  /** Path of a file in the folder of weights. */
  path(file: string): string;
  get(name: string): Fixture;
}

/**
 * All weights except the compiled packages of `packages()`. The set-up or the first test makes them, which takes half a
 * minute.
 */
export function fixtures(): Promise<Fixtures> {
  making ??= make("weights", ["layers.py", "programs.py"]);
  return making;
}

/** Compiled packages that only slow tests use, and the exported program of one. */
export function packages(): Promise<Fixtures> {
  packing ??= make("packages", ["weights.py"]);
  return packing;
}

let making: Promise<Fixtures> | undefined;
let packing: Promise<Fixtures> | undefined;

const dtypeNames = z.enum([
  "float32",
  "float64",
  "float16",
  "bfloat16",
  "int8",
  "int16",
  "int32",
  "int64",
  "uint8",
  "bool",
]);
const specSchema = z.object({ dtype: dtypeNames, dims: z.array(z.number()) });
const fixturesSchema = z.object({
  rows: z.number(),
  fixtures: z.record(
    z.string(),
    z.object({
      file: z.string(),
      inputs: z.record(z.string(), specSchema),
      outputs: z.record(z.string(), specSchema),
      inputData: z.record(z.string(), z.string()),
      outputData: z.record(z.string(), z.string()),
    }),
  ),
});

async function make(name: string, sources: readonly string[]): Promise<Fixtures> {
  const [script = "", ...further] = [`${name}.py`, ...sources].map((file) => join(import.meta.dir, file));
  const folder = await made({ name, script, sources: further });
  const listed = fixturesSchema.parse(await Bun.file(join(folder, "fixtures.json")).json());
  return {
    rows: listed.rows,
    path: (file) => join(folder, file),
    get(name) {
      const found = listed.fixtures[name];
      if (found === undefined) throw new Error(`there is no fixture "${name}"`);
      const columns = Object.entries(found.inputs).map(([input, { dtype, dims }]) => ({
        dtype,
        shape: dims,
        all: decode(dtype, found.inputData[input] ?? ""),
      }));
      const rows = countRows(columns[0]);
      return {
        path: join(folder, found.file),
        inputs: found.inputs,
        outputs: found.outputs,
        items: Array.from({ length: rows }, (_, i) =>
          columns.map(({ dtype, shape, all }) => {
            const size = all.length / rows;
            return { dtype, shape, data: all.slice(i * size, (i + 1) * size) };
          }),
        ),
        expected: Object.entries(found.outputs).map(([output, { dtype, dims }]) => ({
          dtype,
          shape: [rows, ...dims],
          data: decode(dtype, found.outputData[output] ?? ""),
        })),
      };
    },
  };
}

function countRows(column: { shape: number[]; all: TensorData } | undefined): number {
  if (column === undefined) throw new Error("a fixture has at least one input");
  return column.all.length / column.shape.reduce((product, size) => product * size, 1);
}

function decode(dtype: DType, text: string): TensorData {
  const bytes = Uint8Array.from(Buffer.from(text, "base64"));
  return new arrayTypes[dtype](bytes.buffer);
}
