/** Cases that Python wrote: each is a program with inputs and PyTorch's results. */
import { join } from "node:path";
import { z } from "zod";
import { arrayTypes, type DType, isDType, type Tensor, type TensorSpec } from "../../src/author/tensor.ts";
import type { Exact } from "./compare.ts";

export const dtype = z.custom<DType>((name) => isDType(String(name)));
const stored = z.object({ dtype, shape: z.array(z.number()), offset: z.number(), bytes: z.number() });
/** A result that is no tensor, such as a number, as Python prints it. */
const printed = z.object({ value: z.string() });
const run = z.object({
  title: z.string(),
  inputs: z.array(stored),
  expected: z.array(z.union([stored, printed])).optional(),
  /** Results that PyTorch computes in float64. */
  exact: z.array(z.union([stored, printed])).optional(),
  /** The error that PyTorch raised instead of a result. */
  raises: z.string().optional(),
});
const specs = z.record(z.string(), z.object({ dtype, dims: z.array(z.union([z.number(), z.string()])) }));

export const caseSchema = z.object({
  name: z.string(),
  file: z.string(),
  runs: z.array(run),
  /** Group in the report of refusals, such as the name of the operator. */
  group: z.string(),
  /** Text about the program for the report of wrong results, such as its Python source or its exported graph. */
  source: z.string(),
  /** Kind of comparison: `values`, or only `shapes` if results are random. */
  compare: z.enum(["values", "shapes"]),
  /** Allowed difference, relative to the largest element of an output. Default: by dtype, in compare.ts. */
  tolerance: z.number().optional(),
  /** Difference between PyTorch's results and its float64 results, relative to the largest element of an output. */
  float64Distance: z.number().optional(),
  /**
   * If set, inputs are single items, which sconce stacks to a batch. Otherwise each run calls `forward` with whole
   * tensors.
   */
  batched: z.object({ inputs: specs, outputs: specs }).optional(),
  /** One entry for each session that runs the case: true packs layers for the processor, false leaves them plain. */
  pack: z.array(z.boolean()).default([true]),
  /** Whether to compile the program with AOTInductor, as `sconce build --aot` does. */
  compile: z.boolean().default(false),
});

export type Case = z.infer<typeof caseSchema>;
export type Run = Case["runs"][number];
export type Specs = Readonly<Record<string, TensorSpec>>;

/** A folder of cases, as a Python script wrote it. */
export class CaseFolder {
  readonly #path: string;
  readonly #data: ArrayBuffer;
  readonly cases: readonly Case[];

  private constructor(path: string, data: ArrayBuffer, cases: readonly Case[]) {
    this.#path = path;
    this.#data = data;
    this.cases = cases;
  }

  static async open(path: string): Promise<CaseFolder> {
    const lines = (await Bun.file(join(path, "cases.jsonl")).text()).split("\n");
    // The last line is empty, or incomplete if the script crashed.
    const whole = lines.slice(0, -1).map((line) => caseSchema.parse(JSON.parse(line)));
    return new CaseFolder(path, await Bun.file(join(path, "data.bin")).arrayBuffer(), whole);
  }

  file({ file }: Case): string {
    return join(this.#path, file);
  }

  tensor({ dtype, shape, offset, bytes }: z.infer<typeof stored>): Tensor {
    return { dtype, shape, data: new arrayTypes[dtype](this.#data.slice(offset, offset + bytes)) };
  }

  inputs({ inputs }: Run): Tensor[] {
    return inputs.map((input) => this.tensor(input));
  }

  expected({ expected = [] }: Run): (Tensor | string)[] {
    return this.#leaves(expected);
  }

  exact({ exact }: Run, distance: number | undefined): Exact | undefined {
    return exact === undefined || distance === undefined ? undefined : { outputs: this.#leaves(exact), distance };
  }

  #leaves(leaves: NonNullable<Run["expected"]>): (Tensor | string)[] {
    return leaves.map((each) => ("value" in each ? each.value : this.tensor(each)));
  }
}
