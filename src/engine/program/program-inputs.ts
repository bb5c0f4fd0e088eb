/** The inputs of an exported program: tensors of the call, weights, constants and tokens. */
import type { z } from "zod";
import type { GuardSource } from "./program-guards.ts";
import {
  type Argument,
  callInput,
  type ExportedProgram,
  inputSpec,
  libtorchDType,
  notTensor,
} from "./program-schema.ts";

/** An assertion on a tensor's dtype. The translation drops it, because the guards check the dtypes of the inputs. */
export const TYPE_CHECK = "torch.ops.aten._assert_tensor_metadata.default";

export function guardsOf({
  graph_module: { graph, signature },
  range_constraints: ranges,
  guards_code: code,
}: ExportedProgram): GuardSource {
  const checksTypes = graph.nodes.some(({ target }) => target === TYPE_CHECK);
  const inputs = signature.input_specs.flatMap((spec) => {
    if (!("user_input" in spec)) return [];
    const data = inputOf(spec);
    if (!("user_input" in data)) return [];
    const { name } = data.user_input.arg.as_tensor;
    if (!/^[A-Za-z]\w*$/.test(name) || name === "self") throw new Error(`${name} is no name for an input`);
    const value = Object.hasOwn(graph.tensor_values, name) ? graph.tensor_values[name] : undefined;
    if (value === undefined) throw new Error(`it does not say the sizes of its input ${name}`);
    return [{ name, sizes: value.sizes, ...(checksTypes ? { dtype: libtorchDType(value.dtype) } : {}) }];
  });
  return { inputs, ranges, code };
}

export function inputOf(spec: Argument): z.infer<typeof inputSpec> {
  const { success, data } = inputSpec.safeParse(spec);
  if (success) return data;
  const argument = callInput.safeParse(spec).data?.user_input?.arg;
  if (argument === undefined) throw new Error(`its inputs hold a ${Object.keys(spec)[0]}`);
  throw new Error(notTensor(argument));
}

interface Weight {
  /** Name of the weight's value in the graph. */
  readonly value: string;
  /** Name of the weight in the archive. */
  readonly name: string;
}

/** The weight that an input represents: a parameter, a buffer or a tensor constant. Undefined for other inputs. */
export function weightOf(spec: z.infer<typeof inputSpec>): Weight | undefined {
  if ("parameter" in spec) return { value: spec.parameter.arg.name, name: spec.parameter.parameter_name };
  if ("buffer" in spec) return { value: spec.buffer.arg.name, name: spec.buffer.buffer_name };
  if (!("tensor_constant" in spec)) return undefined;
  return { value: spec.tensor_constant.arg.name, name: spec.tensor_constant.tensor_constant_name };
}
