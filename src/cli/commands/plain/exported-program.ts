/**
 * Reads the inputs of an exported program (`torch.export.save`) from its JSON, in the schema of
 * torch/_export/serde/schema.py.
 */
import { z } from "zod";
import type { DType } from "../../../author/tensor.ts";
import { SconceError } from "../../../base/errors.ts";
import { Archive } from "../../../engine/native/archive.ts";
import { programFile } from "../../../engine/native/program.ts";
import type { FreeSize, TensorInput } from "./tensor-input.ts";

const hint = z.looseObject({ as_int: z.number().optional() }).nullish();
const size = z.union([
  z.object({ as_int: z.number() }),
  z.object({ as_expr: z.looseObject({ expr_str: z.string(), hint }) }),
]);
const bound = z.number().nullish();

const programSchema = z.looseObject({
  graph_module: z.looseObject({
    graph: z.looseObject({
      tensor_values: z.record(z.string(), z.looseObject({ dtype: z.number(), sizes: z.array(size) })),
    }),
    signature: z.looseObject({
      input_specs: z.array(
        z.looseObject({
          user_input: z.looseObject({ arg: z.record(z.string(), z.unknown()) }).optional(),
          constant_input: z.looseObject({ name: z.string() }).optional(),
        }),
      ),
    }),
  }),
  range_constraints: z.record(z.string(), z.looseObject({ min_val: bound, max_val: bound })),
});

/** The schema's `ScalarType`. */
const dtypes: Readonly<Record<number, DType>> = {
  1: "uint8",
  2: "int8",
  3: "int16",
  4: "int32",
  5: "int64",
  6: "float16",
  7: "float32",
  8: "float64",
  12: "bool",
  13: "bfloat16",
};

const tensorSchema = z.looseObject({ name: z.string() });

/** @returns the path if the file is an exported program */
export function exportedProgram(path: string | undefined): string | undefined {
  return path !== undefined && Archive.open(path)?.has(programFile) ? path : undefined;
}

/** The JSON in an exported program. */
export function exportedText(path: string): string {
  return Archive.open(path)?.text(programFile) ?? "";
}

/** @throws SconceError `weights_invalid` */
export function inputsOfProgram(json: string): TensorInput[] {
  const { success, data } = programSchema.safeParse(JSON.parse(json));
  if (!success) throw refused("it is written in a schema that this version of sconce does not know");
  const { graph_module: module, range_constraints: ranges } = data;
  /** Free sizes by their symbolic expression. A size's name comes from its first occurrence. */
  const free = new Map<string, FreeSize>();
  return module.signature.input_specs.flatMap(({ user_input: input, constant_input: constant }) => {
    if (constant !== undefined) throw noTensor(constant.name);
    if (input === undefined) return [];
    const { success, data: argument } = tensorSchema.safeParse(input.arg.as_tensor);
    if (!success) throw noTensor(z.looseObject({ name: z.string() }).safeParse(Object.values(input.arg)[0]).data?.name);
    const { name } = argument;
    const value = module.graph.tensor_values[name];
    const dtype = value && dtypes[value.dtype];
    if (value === undefined || dtype === undefined) throw refused(`its input ${name} has a dtype that sconce lacks`);
    const sizes = value.sizes.map((size, i): number | FreeSize => {
      if ("as_int" in size) return size.as_int;
      const { expr_str: text, hint } = size.as_expr;
      const { min_val: min, max_val: max } = ranges[/^Symbol\('(\w+)'/.exec(text)?.[1] ?? ""] ?? {};
      const known = free.get(text) ?? {
        name: i === 0 ? "batch" : `${name}_${i}`,
        min: Math.max(1, min ?? 1),
        max: max ?? Number.POSITIVE_INFINITY,
        ...(hint?.as_int === undefined ? {} : { hint: hint.as_int }),
      };
      free.set(text, known);
      return known;
    });
    return [{ name, dtype, sizes }];
  });
}

function noTensor(name = "one"): SconceError {
  return refused(`its input ${name} is no tensor: export it with tensors alone as arguments`);
}

function refused(why: string): SconceError {
  return new SconceError("weights_invalid", `the exported program can't be served as it is: ${why}`);
}
