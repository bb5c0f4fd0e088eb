/** Reads the inputs of an exported program (`torch.export.save`) from the JSON in its file. */
import { SconceError } from "../../../base/errors.ts";
import { callInput, dtypeOf, named, notTensor, programSchema } from "../../../engine/program/program-schema.ts";
import { WeightsFile } from "../../../engine/program/weights-file.ts";
import type { FreeSize, TensorInput } from "./tensor-input.ts";

/** The path itself if the file is an exported program, otherwise undefined. */
export function exportedProgram(path: string | undefined): string | undefined {
  return path !== undefined && new WeightsFile(path).programText !== undefined ? path : undefined;
}

/** The inputs of the program. @throws SconceError `weights_invalid` */
export function inputsOfProgram(json: string): TensorInput[] {
  const { success, data } = programSchema.safeParse(JSON.parse(json));
  if (!success) throw refused("it is written in a schema that this version of sconce does not know");
  const { graph_module: module, range_constraints: ranges } = data;
  /** Free sizes by their symbolic expression. A size gets its name from its first occurrence. */
  const free = new Map<string, FreeSize>();
  return module.signature.input_specs.flatMap((spec) => {
    const { user_input: input } = callInput.parse(spec);
    if (input === undefined) return [];
    const { success, data: argument } = named.safeParse(input.arg.as_tensor);
    if (!success) throw refused(notTensor(input.arg));
    const { name } = argument;
    const value = module.graph.tensor_values[name];
    const dtype = value && dtypeOf(value.dtype);
    if (value === undefined || dtype === undefined) throw refused(`its input ${name} has a dtype that sconce lacks`);
    const sizes = value.sizes.map((size, i): number | FreeSize => {
      if ("as_int" in size) return size.as_int;
      const { expr_str: text, hint } = size.as_expr;
      const { min_val: min, max_val: max } = ranges[/^Symbol\('(\w+)'/.exec(text)?.[1] ?? ""] ?? {};
      const known = free.get(text) ?? {
        name: i === 0 ? "batch" : `${name}_${i}`,
        min: Math.max(1, Number(min ?? 1)),
        max: Number(max ?? Number.POSITIVE_INFINITY),
        ...(hint?.as_int === undefined ? {} : { hint: hint.as_int }),
      };
      free.set(text, known);
      return known;
    });
    return [{ name, dtype, sizes }];
  });
}

function refused(why: string): SconceError {
  return new SconceError("weights_invalid", `the exported program can't be served as it is: ${why}`);
}
