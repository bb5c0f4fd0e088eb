/** Parses an inference request of the Open Inference Protocol. Its body is JSON, JSON followed by binary tensors, or the bytes of the only input. */
import { z } from "zod";
import { arrayTypes } from "../../../author/tensor.ts";
import { refuseTooMany } from "../../../pipeline/inputs/input-decoder.ts";
import type { Charge } from "../../../pipeline/memory/charge.ts";
import { ProblemError } from "../../problem.ts";
import { checked, parseMessage } from "../message.ts";
import { datatypeOf, type ModelTensors, rowShape, type TensorField, unfit } from "./tensors.ts";

const parameters = z.record(z.string(), z.unknown()).nullish();
const requestSchema = z.looseObject({
  id: z.string().nullish(),
  parameters,
  inputs: z.array(
    z.looseObject({
      name: z.string(),
      shape: z.array(z.int().min(0)),
      datatype: z.string(),
      parameters,
      // z.array() would copy the elements.
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
  readonly data: GivenData;
}

/** Elements of a tensor. `json`: JSON values. `binary`: the bytes of all elements. `element`: the bytes of the only element. */
export type GivenData =
  | { readonly form: "json"; readonly list: readonly unknown[] }
  | { readonly form: "binary" | "element"; readonly bytes: Uint8Array };

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

/** Parameters that the server does not support. Ignoring them would give wrong results. */
const refusedParameters = ["sequence_id", "classification", "shared_memory_region"];

/** The bytes of a request. */
export interface InferBytes {
  readonly bytes: Uint8Array;
  /** The header Inference-Header-Content-Length: bytes of the JSON; null if the body is only JSON, 0 if it has no JSON. */
  readonly headerLength: string | null;
  /** Gets the memory of the values in the JSON. */
  readonly charge: Charge;
}

/**
 * Parses a request for the model.
 * @param convert called with the request in the turn of the event loop that parses it
 * @throws ProblemError 400 or 413; SconceError `body_invalid`, `inputs_invalid`, `queue_full`; errors of `convert`
 */
export async function readRequest<T>(
  { bytes, headerLength, charge }: InferBytes,
  model: ModelInterface,
  convert: (request: InferRequest) => T,
): Promise<T> {
  const jsonLength = headerLength === null ? bytes.length : Number(headerLength);
  if (headerLength !== null && (!/^\d+$/.test(headerLength) || jsonLength > bytes.length)) {
    const detail = `Inference-Header-Content-Length is ${headerLength}, and the body has ${bytes.length} bytes`;
    throw new ProblemError({ code: "bad_header", detail });
  }
  if (headerLength !== null && jsonLength === 0) return convert(rawRequest(bytes, model));
  const binary = bytes.subarray(jsonLength);
  return parseMessage(bytes.subarray(0, jsonLength), charge, (value) => convert(requestOf(value, binary, model)));
}

function requestOf(value: unknown, binary: Uint8Array, model: ModelInterface): InferRequest {
  const body = checked(requestSchema, value, (path, message) =>
    unfit(`the request is invalid at ${path.join(".") || "its top"}: ${message}`),
  );
  refuseParameters("the request", body.parameters);
  const inputs = inputsOf(body, binary, model);
  const rows = inputs[0]?.shape[0] ?? 0;
  for (const { field, shape } of inputs) {
    if (shape[0] === rows) continue;
    const [first] = inputs;
    throw unfit(`input '${field.name}' has ${shape[0]} rows, and input '${first?.field.name}' has ${rows}`);
  }
  if (rows === 0) throw unfit("expected at least one row, received none");
  refuseTooMany(rows, model.maxInputs);
  return {
    id: body.id ?? undefined,
    rows,
    inputs,
    outputs: outputsOf(body, model),
    timeoutMs: timeoutOf(body.parameters?.timeout),
  };
}

function inputsOf({ inputs }: RequestBody, binary: Uint8Array, model: ModelInterface): GivenTensor[] {
  const { fields } = model.inputs;
  const names = new Set<string>();
  let at = 0;
  const given = inputs.map(({ name, shape: shapeGiven, datatype, parameters, data }): GivenTensor => {
    const field = fields.find((each) => each.name === name);
    if (field === undefined)
      throw unfit(`unexpected inference input '${name}' for model '${model.name}'${known(fields)}`);
    if (names.has(name)) throw unfit(`input '${name}' is given twice`);
    names.add(name);
    refuseParameters(`input '${name}'`, parameters);
    const shape = checkedShape(field, { shape: shapeGiven, datatype }, model);
    const size = parameters?.binary_data_size;
    if (size === undefined || size === null) {
      if (!data) throw unfit(`input '${name}' must have 'data' or 'binary_data_size'`);
      return { field, shape, data: { form: "json", list: data } };
    }
    if (typeof size !== "number" || !Number.isInteger(size) || size < 0 || at + size > binary.length) {
      throw unfit(
        `input '${name}' has binary_data_size ${size}, and ${binary.length - at} bytes are left behind the JSON`,
      );
    }
    const bytes = binary.subarray(at, at + size);
    at += size;
    return { field, shape, data: { form: "binary", bytes } };
  });
  if (at < binary.length) throw unfit(`${binary.length - at} bytes behind the JSON belong to no input`);
  const missing = fields.find(({ name, isRequired }) => isRequired && !names.has(name));
  if (missing !== undefined) throw unfit(`input '${missing.name}' of model '${model.name}' is missing`);
  if (given.length === 0) throw unfit(`expected at least one input${known(fields)}`);
  return given;
}

/** Checks the datatype and shape of an input. Triton's clients cannot send the shape [n], and send [n, 1] instead, which becomes [n]. */
function checkedShape(
  field: TensorField,
  { shape, datatype }: { readonly shape: readonly number[]; readonly datatype: string },
  { name }: ModelInterface,
): readonly number[] {
  const type = datatypeOf(field);
  if (datatype !== type) {
    throw unfit(`input '${field.name}' of model '${name}' has the datatype ${type}, the request says '${datatype}'`);
  }
  const expected = [-1, ...rowShape(field)];
  if (expected.length === 1 && shape.length === 2 && shape[1] === 1) return shape.slice(0, 1);
  const fits = shape.length === expected.length && expected.every((size, i) => size === -1 || size === shape[i]);
  if (fits) return shape;
  throw unfit(`unexpected shape for input '${field.name}' for model '${name}'. Expected [${expected}], got [${shape}]`);
}

function outputsOf({ outputs, parameters }: RequestBody, { name: model, outputs: { fields } }: ModelInterface) {
  const isBinary = parameters?.binary_data_output === true;
  if (!outputs || outputs.length === 0) return fields.map((field) => ({ field, isBinary }));
  return outputs.map(({ name, parameters }): WantedOutput => {
    const field = fields.find((each) => each.name === name);
    if (field === undefined) throw unfit(`unexpected inference output '${name}' for model '${model}'${known(fields)}`);
    refuseParameters(`output '${name}'`, parameters);
    const own = parameters?.binary_data;
    return { field, isBinary: typeof own === "boolean" ? own : isBinary };
  });
}

/** Reads a body without JSON: the elements of the model's only input. The answer has all outputs as binary tensors. */
function rawRequest(bytes: Uint8Array, { name, maxInputs, inputs: { fields }, outputs }: ModelInterface): InferRequest {
  const [field, ...others] = fields;
  if (field === undefined || others.length > 0) {
    throw unfit(`a raw request needs a model with one input, and '${name}' has ${fields.length}`);
  }
  const shape = rawShape(field, bytes.length);
  const [rows = 0] = shape;
  refuseTooMany(rows, maxInputs);
  return {
    id: undefined,
    rows,
    inputs: [{ field, shape, data: { form: field.values.kind === "numbers" ? "binary" : "element", bytes } }],
    outputs: outputs.fields.map((output) => ({ field: output, isBinary: true })),
    timeoutMs: undefined,
  };
}

/** The shape of a body of `length` bytes: as many rows as fit if the sizes of a row are fixed; one row if one of its sizes is free. */
function rawShape(field: TensorField, length: number): number[] {
  const { values } = field;
  if (values.kind !== "numbers") return [1];
  const free = values.dims.filter((dim) => typeof dim !== "number").length;
  const known = values.dims.reduce<number>((product, dim) => product * (typeof dim === "number" ? dim : 1), 1);
  const count = length / arrayTypes[values.dtype].BYTES_PER_ELEMENT / known;
  if (free > 1 || !Number.isInteger(count) || count === 0) {
    throw unfit(`${length} bytes are no ${datatypeOf(field)} of the shape [${[-1, ...rowShape(field)]}]`);
  }
  if (free === 0) return [count, ...rowShape(field)];
  return [1, ...rowShape(field).map((size) => (size === -1 ? count : size))];
}

/** Converts a request's timeout from microseconds to milliseconds. Undefined if it is no positive number. */
function timeoutOf(timeout: unknown): number | undefined {
  return typeof timeout === "number" && timeout > 0 ? timeout / 1000 : undefined;
}

function refuseParameters(owner: string, given: RequestBody["parameters"]): void {
  const refused = refusedParameters.find((name) => given?.[name]);
  if (refused !== undefined) throw unfit(`${owner} has the parameter '${refused}', which this server does not support`);
}

function known(fields: readonly TensorField[]): string {
  return `; the model has ${fields.map(({ name }) => `'${name}'`).join(", ")}`;
}
