/** Weights that Python exports, with outputs that PyTorch computes for them, stored in `.sconce/fixtures`. */
import { join } from "node:path";
import { z } from "zod";
import { countOf, type Tensor, type TensorSpec } from "../../src/author/tensor.ts";
import { dtype } from "../fidelity/case.ts";
import { made } from "./made.ts";
import { elementsIn, itemsOf } from "./tensors.ts";

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
  making ??= make("weights", ["layers.py", "programs.py", "stateful.py"]);
  return making;
}

/** Compiled packages that only slow tests use, and the exported program of one. */
export function packages(): Promise<Fixtures> {
  packing ??= make("packages", ["stateful.py", "weights.py"]);
  return packing;
}

let making: Promise<Fixtures> | undefined;
let packing: Promise<Fixtures> | undefined;

const specSchema = z.object({ dtype, dims: z.array(z.number()) });
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
      const { file, inputs, outputs, inputData, outputData } = found;
      return {
        path: join(folder, file),
        inputs,
        outputs,
        items: itemsOf(stacked(inputs, inputData)),
        expected: stacked(outputs, outputData),
      };
    },
  };
}

/** The tensors of these base64 texts, each with the rows of all items. */
function stacked(specs: Record<string, z.infer<typeof specSchema>>, texts: Record<string, string>): Tensor[] {
  return Object.entries(specs).map(([name, { dtype, dims }]) => {
    const data = elementsIn(dtype, texts[name] ?? "");
    return { dtype, shape: [data.length / countOf(dims), ...dims], data };
  });
}
