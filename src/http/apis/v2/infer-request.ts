/** Parses an inference request of the Open Inference Protocol: JSON, or JSON followed by binary tensors. */
import { z } from "zod";
import { refuseTooMany } from "../../../pipeline/inputs/input-decoder.ts";
import { checked } from "../message.ts";
import { type ModelTensors, type TensorField, unfit } from "./tensors.ts";

/** A parameter that the server refuses, because to ignore it would give wrong results. Clients write 0 or an empty text for "not set". */
const unsupported = z.literal([0, "", false], "this server does not support it").nullish();
const parameters = z
  .looseObject({
    sequence_id: unsupported,
    classification: unsupported,
    shared_memory_region: unsupported,
    binary_data_size: z.int().min(0).nullish(),
    binary_data: z.boolean().nullish(),
    binary_data_output: z.boolean().nullish(),
    /** In microseconds. */
    timeout: z.number().positive().optional().catch(undefined),
  })
  .nullish();
const requestSchema = z.looseObject({
  id: z.string().nullish(),
  parameters,
  inputs: z.array(
    z.looseObject({
      name: z.string(),
      shape: z.array(z.int().min(0)).min(1),
      datatype: z.string(),
      parameters,
      // Unlike z.array(), this check does not copy the elements.
      data: z.custom<readonly unknown[]>((value) => Array.isArray(value), "expected a list").nullish(),
    }),
  ),
  outputs: z.array(z.looseObject({ name: z.string(), parameters })).nullish(),
});
type RequestBody = z.infer<typeof requestSchema>;

export interface GivenTensor {
  readonly field: TensorField;
  /** Sizes of the dimensions, the batch dimension first. */
  readonly shape: readonly number[];
  /** The elements as JSON values, or the bytes of all elements. */
  readonly data: readonly unknown[] | Uint8Array;
}

export interface WantedOutput {
  readonly field: TensorField;
  readonly isBinary: boolean;
}

export interface InferRequest {
  readonly id: string | undefined;
  readonly rows: number;
  readonly inputs: readonly GivenTensor[];
  readonly outputs: readonly WantedOutput[];
  readonly timeoutMs: number | undefined;
}

export interface ModelInterface {
  readonly name: string;
  /** Maximum rows of a request. */
  readonly maxInputs: number;
  readonly inputs: ModelTensors;
  readonly outputs: ModelTensors;
}

/**
 * Checks the JSON of a request.
 * @param binary the tensors behind the JSON
 * @throws ProblemError 400; SconceError `inputs_invalid`
 */
export function requestOf(value: unknown, binary: Uint8Array, model: ModelInterface): InferRequest {
  const body = checked(requestSchema, value, (path, message) =>
    unfit(`the request is invalid at ${path.join(".") || "its top"}: ${message}`),
  );
  const { id, parameters } = body;
  const inputs = inputsOf(body, binary, model);
  const [rows = 0] = inputs[0]?.shape ?? [];
  const other = inputs.find(({ shape }) => shape[0] !== rows);
  if (other !== undefined) {
    throw unfit(
      `input '${other.field.name}' has ${other.shape[0]} rows, and input '${inputs[0]?.field.name}' has ${rows}`,
    );
  }
  if (rows === 0) throw unfit("expected at least one row, received none");
  refuseTooMany(rows, model.maxInputs);
  const timeoutMs = parameters?.timeout === undefined ? undefined : parameters.timeout / 1000;
  return { id: id ?? undefined, rows, inputs, outputs: outputsOf(body, model), timeoutMs };
}

function inputsOf({ inputs }: RequestBody, binary: Uint8Array, model: ModelInterface): GivenTensor[] {
  const { fields } = model.inputs;
  const left = new Set(fields);
  let at = 0;
  const given = inputs.map(({ name, shape, datatype, parameters, data }): GivenTensor => {
    const field = fieldNamed(name, fields, `input '${name}' for model '${model.name}'`);
    if (!left.delete(field)) throw unfit(`input '${name}' is given twice`);
    if (datatype !== field.datatype) {
      const expected = `input '${name}' of model '${model.name}' has the datatype ${field.datatype}`;
      throw unfit(`${expected}, the request says '${datatype}'`);
    }
    const of = { field, shape: fittingShape(field, shape, model) };
    const size = parameters?.binary_data_size ?? undefined;
    if (size === undefined) {
      if (!data) throw unfit(`input '${name}' must have 'data' or 'binary_data_size'`);
      return { ...of, data };
    }
    const bytes = binary.subarray(at, at + size);
    if (bytes.length < size) {
      throw unfit(`input '${name}' has binary_data_size ${size}, and ${bytes.length} bytes are left behind the JSON`);
    }
    at += size;
    return { ...of, data: bytes };
  });
  if (at < binary.length) throw unfit(`${binary.length - at} bytes behind the JSON belong to no input`);
  const missing = [...left].find(({ isRequired }) => isRequired);
  if (missing !== undefined) throw unfit(`input '${missing.name}' of model '${model.name}' is missing`);
  return given;
}

/** Checks the shape of an input. Triton's clients cannot send the shape [n], and send [n, 1] instead, which becomes [n]. */
function fittingShape(field: TensorField, shape: readonly number[], { name }: ModelInterface): readonly number[] {
  const { shape: expected } = field;
  if (expected.length === 1 && shape.length === 2 && shape[1] === 1) return shape.slice(0, 1);
  const fits = shape.length === expected.length && expected.every((size, i) => size === -1 || size === shape[i]);
  if (fits) return shape;
  throw unfit(`unexpected shape for input '${field.name}' for model '${name}'. Expected [${expected}], got [${shape}]`);
}

function outputsOf({ outputs, parameters }: RequestBody, { name: model, outputs: { fields } }: ModelInterface) {
  const isBinary = parameters?.binary_data_output ?? false;
  if (!outputs || outputs.length === 0) return fields.map((field) => ({ field, isBinary }));
  return outputs.map(({ name, parameters }): WantedOutput => {
    const field = fieldNamed(name, fields, `output '${name}' for model '${model}'`);
    return { field, isBinary: parameters?.binary_data ?? isBinary };
  });
}

function fieldNamed(name: string, fields: readonly TensorField[], what: string): TensorField {
  const field = fields.find((each) => each.name === name);
  if (field !== undefined) return field;
  const known = fields.map((each) => `'${each.name}'`).join(", ");
  throw unfit(`unexpected inference ${what}; the model has ${known}`);
}
