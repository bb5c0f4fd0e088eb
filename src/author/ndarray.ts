/** The `ndarray` field: in JSON nested lists of numbers or base64 bytes, in model code a `Tensor`. */
import * as z from "zod";
import { ARRAY_KEYWORD, type JsonSchema } from "../base/schemas/json-schema.ts";
import { replaceJsonSchema } from "../base/schemas/zod-internals.ts";
import { elements } from "./elements.ts";
import { arrayFromBytes } from "./ndarray-bytes.ts";
import { type ArrayFault, arrayFromLists, checkedArray, type ReadArray, wireOfArray } from "./ndarray-wire.ts";
import { checkOptions } from "./options.ts";
import { arrayTypes, type DType, describeTensor, type ModelTensor, type Tensor, type TensorSpec } from "./tensor.ts";
import { tensorSpec } from "./tensor-spec.ts";

/**
 * A field for a tensor. In JSON it is a list of numbers, nested once per dimension. Several times cheaper for client
 * and server is `data:application/octet-stream;base64,` plus the bytes of the elements: little-endian, row-major, raw
 * 16-bit floats, bool as bytes 0 and 1. With more than one free size, the bytes need `;shape=2x3` before `;base64`.
 * `preprocess` gets a `Tensor` that it may return unchanged. `postprocess` may return a row unchanged, and the client
 * gets lists of numbers, or bytes if it asks for them in the v2 API.
 * @param spec as for the model's tensors: `ndarray(float32(784))`, `ndarray(float32(3, "height", "width"))`
 */
export function ndarray<D extends DType>(spec: TensorSpec<D>) {
  checkOptions("ndarray()", tensorSpec, spec, "model_invalid");
  // The schema only describes the field: a zod list of numbers would need several calls per element.
  const wire = z.custom<unknown>();
  replaceJsonSchema(wire, wireSchemaOf(spec));
  const tensor = z.custom<ModelTensor<D>>((value) => isTensorOf(spec, value), {
    error: `Expected a tensor ${describeTensor(spec.dtype, spec.dims)}; make one with tensor(data, shape)`,
  });
  const codec = z.codec(wire, tensor, {
    decode(value, { issues }) {
      const { array, faults } = readArray(spec, value);
      for (const fault of faults) issues.push(issueOf(fault, value));
      return array;
    },
    encode(array, { issues }) {
      // zod may encode a value before its checks, so the value can be no tensor. zod refuses it afterwards.
      if (!isTensorOf(spec, array)) return [];
      const { wire, faults } = wireOfArray(array);
      for (const fault of faults) issues.push(issueOf(fault, array));
      return wire;
    },
  });
  return codec;
}

/** Reads lists, a data URI, or a tensor that a binary request body has supplied. */
function readArray<D extends DType>(spec: TensorSpec<D>, value: unknown): ReadArray<D> {
  if (typeof value === "string") return arrayFromBytes(spec, value);
  return isTensorOf(spec, value) ? checkedArray(spec, value) : arrayFromLists(spec, value);
}

function issueOf({ path, message }: ArrayFault, input: unknown): z.core.$ZodRawIssue {
  return { code: "custom", path: [...path], message, input };
}

function isTensorOf<D extends DType>({ dtype, dims }: TensorSpec<D>, value: unknown): value is Tensor<D> {
  if (typeof value !== "object" || value === null || !("dtype" in value && "shape" in value && "data" in value))
    return false;
  const { shape, data } = value;
  return (
    value.dtype === dtype &&
    data instanceof arrayTypes[dtype] &&
    Array.isArray(shape) &&
    shape.length === dims.length &&
    dims.every((dim, i) => typeof dim !== "number" || dim === shape[i])
  );
}

function wireSchemaOf({ dtype, dims }: TensorSpec): JsonSchema {
  const { schema } = elements[dtype];
  const lists = dims.toReversed().reduce<JsonSchema>((items, dim) => {
    const size = typeof dim === "number" ? { minItems: dim, maxItems: dim } : {};
    return { type: "array", items, ...size };
  }, schema);
  const description = `The elements of ${describeTensor(dtype, dims)} as bytes, little-endian and in row-major order: data:application/octet-stream;base64,…`;
  const mark = { dtype, shape: dims };
  return { anyOf: [lists, { type: "string", format: "uri", pattern: "^data:", [ARRAY_KEYWORD]: mark, description }] };
}
