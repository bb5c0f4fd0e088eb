/**
 * The schema of an exported program (`torch.export.save`), as far as sconce reads it: torch/_export/serde/schema.py,
 * version 8.
 */
import { z } from "zod";
import type { DType } from "../../author/tensor.ts";

/** A 64-bit integer. */
export const whole = z.union([z.int(), z.bigint()]);

export const named = z.looseObject({ name: z.string() });
export const names = z.array(named);

/** A value with its kind as the only key, e.g. `{ as_tensor: { name } }`. */
export const argument = z.record(z.string(), z.unknown());
export type Argument = z.infer<typeof argument>;

export const tensorList = z.array(z.union([z.object({ as_tensor: named }), z.object({ as_none: z.unknown() })]));

export const symbol = z.union([
  z.object({ as_name: z.string() }),
  z.object({ as_int: whole }),
  z.object({ as_float: z.unknown() }),
  z.object({ as_bool: z.boolean() }),
]);
export const symbols = z.array(symbol);

export const inputSpec = z.union([
  z.object({ user_input: z.looseObject({ arg: z.object({ as_tensor: named }) }) }),
  z.object({ parameter: z.looseObject({ arg: named, parameter_name: z.string() }) }),
  z.object({ buffer: z.looseObject({ arg: named, buffer_name: z.string() }) }),
  z.object({ tensor_constant: z.looseObject({ arg: named, tensor_constant_name: z.string() }) }),
  z.object({ token: z.looseObject({ arg: named }) }),
  // An argument that was no tensor in the export, e.g. None. The graph has its value.
  z.object({ constant_input: named }),
]);

export const callInput = z.looseObject({ user_input: z.looseObject({ arg: argument }).optional() });

const valueName = z.union([named, z.object({ as_name: z.string() }).transform(({ as_name: name }) => ({ name }))]);

/** Message about an argument that changes between calls and is no tensor, e.g. a number. */
export function notTensor(arg: Argument): string {
  const name = valueName.safeParse(Object.values(arg)[0]).data?.name ?? "one";
  return `its input ${name} is not a tensor: export it with a fixed value, or as a tensor`;
}

export const bufferMutation = z.looseObject({ buffer_mutation: z.looseObject({ buffer_name: z.string() }) });

const nodes = z.array(
  z.looseObject({
    target: z.string(),
    inputs: z.array(z.looseObject({ name: z.string(), arg: argument, kind: z.number().nullish() })),
    outputs: z.array(argument),
  }),
);
export type Node = z.infer<typeof nodes>[number];

/** The inner graph of a branch, or of a `with` statement. */
export const innerGraph = z.looseObject({
  graph: z.looseObject({ inputs: z.array(argument), outputs: z.array(argument), nodes }),
});

export const dimension = z.union([
  z.object({ as_int: z.number() }),
  z.object({
    as_expr: z.looseObject({ expr_str: z.string(), hint: z.looseObject({ as_int: z.number().optional() }).nullish() }),
  }),
]);
const bound = z.union([z.number(), z.bigint()]).nullish();
export const rangeConstraints = z.record(z.string(), z.looseObject({ min_val: bound, max_val: bound }));

export const programSchema = z.looseObject({
  graph_module: z.looseObject({
    graph: z.looseObject({
      outputs: z.array(argument),
      nodes,
      tensor_values: z.record(z.string(), z.looseObject({ dtype: z.number(), sizes: z.array(dimension) })),
    }),
    signature: z.looseObject({ input_specs: z.array(argument), output_specs: z.array(argument) }),
    module_call_graph: z.array(z.looseObject({ signature: z.looseObject({ out_spec: z.string() }).nullish() })),
  }),
  range_constraints: rangeConstraints,
  guards_code: z.array(z.string()).default([]),
  schema_version: z.looseObject({ major: z.literal(8) }),
});
export type ExportedProgram = z.infer<typeof programSchema>;

const knownSize = z.looseObject({ as_int: z.number() }).transform(({ as_int: value }) => value);

/** The JSON index of a folder in the archive, which lists its tensors. */
export const payloadSchema = z.object({
  config: z.record(
    z.string(),
    z.looseObject({
      path_name: z.string(),
      use_pickle: z.literal(false),
      tensor_meta: z.looseObject({
        dtype: z.number(),
        sizes: z.array(knownSize),
        strides: z.array(knownSize),
        storage_offset: knownSize,
      }),
    }),
  ),
});

/** Number of a keyword argument in PyTorch's enum `ArgumentKind`. */
export const KEYWORD = 2;
/** Number of a dense tensor in PyTorch's enum `Layout`. */
export const STRIDED = 7;

/** The dtypes by their numbers in PyTorch's enum `ScalarType`, without complex numbers. */
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
const BFLOAT16 = 13;
const LIBTORCH_BFLOAT16 = 15;

export function dtypeOf(scalarType: number): DType | undefined {
  return dtypes[scalarType];
}

/** The dtype with this number in libtorch's enum `ScalarType`. */
export function dtypeOfLibtorch(scalarType: number): DType | undefined {
  return dtypes[scalarType === LIBTORCH_BFLOAT16 ? BFLOAT16 : scalarType + 1];
}

export function libtorchDType(scalarType: number): number {
  if (scalarType === BFLOAT16) return LIBTORCH_BFLOAT16;
  if (scalarType >= 1 && scalarType < BFLOAT16) return scalarType - 1;
  throw new Error(`it has tensors of the dtype ${scalarType} of its schema`);
}

/** Numbers of `MemoryFormat` in libtorch, by the schema's number: contiguous, channels last (2d and 3d), preserve. */
const memoryFormats: Readonly<Record<number, number>> = { 1: 0, 2: 2, 3: 3, 4: 1 };

export function libtorchMemoryFormat(format: number): string {
  const found = memoryFormats[format];
  if (found === undefined) throw new Error(`it asks for the memory format ${format} of its schema`);
  return String(found);
}
