/** Describes the fields of a model's inputs and outputs as tensors of the Open Inference Protocol. The first dimension of a tensor is the batch. */
import { type DType, isDType } from "../../../author/tensor.ts";
import { isObject } from "../../../base/json.ts";
import { ARRAY_KEYWORD, type JsonSchema, type JsonType, SchemaNode } from "../../../base/schemas/json-schema.ts";
import { ProblemError } from "../../problem.ts";

/** Names of dtypes in the protocol. */
const datatypes = {
  float32: "FP32",
  float64: "FP64",
  float16: "FP16",
  bfloat16: "BF16",
  int8: "INT8",
  int16: "INT16",
  int32: "INT32",
  int64: "INT64",
  uint8: "UINT8",
  bool: "BOOL",
} as const satisfies Record<DType, string>;

export interface NumberValues {
  readonly kind: "numbers";
  readonly dtype: DType;
  /** Sizes of one row's dimensions; a string for a size that may vary. */
  readonly dims: readonly (number | string)[];
  /** Whether the model's schema accepts the elements as a base64 data URI. */
  readonly takesBytes: boolean;
}

/** Elements of the datatype BYTES: the bytes of a file, a text, or JSON text. */
interface ByteValues {
  readonly kind: "file" | "text" | "json";
  /** Whether a file may be text. The files of `image()` and `audio()` are not. */
  readonly takesText?: boolean;
}

export interface TensorField {
  readonly name: string;
  readonly isRequired: boolean;
  readonly datatype: string;
  /** Sizes of the tensor's dimensions; −1 for a size that may vary. The first dimension is the batch. */
  readonly shape: readonly number[];
  readonly values: NumberValues | ByteValues;
}

export interface ModelTensors {
  readonly fields: readonly TensorField[];
  /** Whether an input or output is one tensor, because its schema is not an object with declared fields. */
  readonly isWhole: boolean;
}

/** The tensors for a schema. @param name name of the tensor if the schema has no declared fields */
export function tensorsOf(schema: JsonSchema, name: "input" | "output"): ModelTensors {
  const node = SchemaNode.of(schema);
  const [only, ...others] = node.options;
  const isDeclared = only !== undefined && only.fields.size > 0 && only.others === undefined && !only.hasPatterns;
  const isWhole = !isDeclared || others.length > 0 || node.isCombined;
  if (isWhole) return { fields: [fieldOf(name, true, valuesOf(node))], isWhole };
  const fields = [...node.fields].map(([name_, field]) => {
    const isRequired = node.required.includes(name_);
    // An optional output field is JSON text, because only JSON can express `null`, which stands for a missing value.
    return fieldOf(name_, isRequired, name === "output" && !isRequired ? { kind: "json" } : valuesOf(field));
  });
  return { fields, isWhole };
}

function fieldOf(name: string, isRequired: boolean, values: TensorField["values"]): TensorField {
  if (values.kind !== "numbers") return { name, isRequired, datatype: "BYTES", shape: [-1], values };
  const shape = [-1, ...values.dims.map((dim) => (typeof dim === "number" ? dim : -1))];
  return { name, isRequired, datatype: datatypes[values.dtype], shape, values };
}

function valuesOf(node: SchemaNode): TensorField["values"] {
  if (node.isCombined || node.types.has("null")) return { kind: "json" };
  const mark = node.options.map(({ schema }) => schema[ARRAY_KEYWORD]).find(isObject);
  if (typeof mark?.dtype === "string" && isDType(mark.dtype)) {
    const shape: readonly unknown[] = Array.isArray(mark.shape) ? mark.shape : [];
    const dims = shape.map((size) => (typeof size === "number" ? size : "free"));
    return { kind: "numbers", dtype: mark.dtype, dims, takesBytes: true };
  }
  if (hasType(node, "string")) {
    const { mediaTypes } = node.file ?? {};
    if (mediaTypes === undefined) return { kind: "text" };
    return { kind: "file", takesText: mediaTypes.length === 0 || !mediaTypes.every((type) => binaryType.test(type)) };
  }
  const dims: number[] = [];
  let inner = node;
  while (hasType(inner, "array") && inner.first === undefined) {
    const { minItems, maxItems } = inner.limits;
    if (minItems === undefined || minItems !== maxItems) return { kind: "json" };
    dims.push(minItems);
    inner = inner.items;
  }
  const [, element] = numberTypes.find(([type]) => hasType(inner, type)) ?? [];
  return element === undefined ? { kind: "json" } : { kind: "numbers", dtype: element, dims, takesBytes: false };
}

const binaryType = /^(?:image|audio|video)\//;

const numberTypes: readonly (readonly [JsonType, DType])[] = [
  ["number", "float64"],
  ["integer", "int64"],
  ["boolean", "bool"],
];

function hasType({ types }: SchemaNode, type: JsonType): boolean {
  return types.size === 1 && types.has(type);
}

/** The error for a request that does not match the model. */
export function unfit(detail: string): ProblemError {
  return new ProblemError({ code: "inputs_invalid", detail });
}
