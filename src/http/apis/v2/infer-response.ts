/** Converts the outputs of a prediction to the tensors of an inference response. */
import { decodeDataUrl, isDataUrl } from "../../../author/data-url.ts";
import { arrayFromBytes } from "../../../author/ndarray-bytes.ts";
import { arrayFromLists, listsFromArray } from "../../../author/ndarray-wire.ts";
import { arrayTypes, countOf, type DType, type Tensor, type TensorSpec } from "../../../author/tensor.ts";
import { isObject } from "../../../base/json.ts";
import { encodeElements } from "./byte-elements.ts";
import type { WantedOutput } from "./infer-request.ts";
import { bytesOf, datatypeOf, type TensorField, unfit } from "./tensors.ts";

export interface InferResponse {
  readonly id: string;
  readonly model: { readonly name: string; readonly tag: string };
  /** The output of each row, as JSON text. */
  readonly outputs: readonly string[];
  readonly wanted: readonly WantedOutput[];
  /** Whether each output is one tensor. Otherwise each output is an object with one tensor for each field. */
  readonly isWhole: boolean;
}

/** A body of JSON, followed by the bytes of binary tensors. */
export interface ResponseBody {
  readonly json: string;
  readonly binary: readonly Uint8Array[];
}

/** Creates the body of the response. @throws ProblemError 400 if rows differ in size, or a value does not fit the tensor's type */
export function responseBody({ id, model, outputs, wanted, isWhole }: InferResponse): ResponseBody {
  const rows: unknown[] = outputs.map((text) => JSON.parse(text));
  const binary: Uint8Array[] = [];
  const tensors = wanted.map(({ field, isBinary }) => {
    const values = isWhole ? rows : rows.map((row) => (isObject(row) ? row[field.name] : undefined));
    const { shape, list, bytes } = columnOf(field, values);
    const head = { name: field.name, datatype: datatypeOf(field), shape };
    if (!isBinary) return { ...head, data: list() };
    const encoded = bytes();
    binary.push(encoded);
    return { ...head, parameters: { binary_data_size: encoded.length } };
  });
  const { name, tag } = model;
  return { json: JSON.stringify({ model_name: name, model_version: tag, id, outputs: tensors }), binary };
}

/** The tensor of one output field: `list` gives its elements for JSON, `bytes` as bytes. */
interface Column {
  readonly shape: readonly number[];
  readonly list: () => unknown;
  readonly bytes: () => Uint8Array;
}

function columnOf({ name, values }: TensorField, rows: readonly unknown[]): Column {
  if (values.kind === "numbers") {
    const { dtype, dims } = values;
    return numberColumn(
      dtype,
      rows.map((row, i) => arrayOf({ dtype, dims }, row, `output '${name}', row ${i}`)),
      name,
    );
  }
  const { kind } = values;
  const texts = rows.map((row) => (kind === "json" ? JSON.stringify(row ?? null) : String(row)));
  return {
    shape: [rows.length],
    list: () => texts,
    bytes: () => encodeElements(texts.map((text) => (kind === "file" ? fileBytes(text) : Buffer.from(text)))),
  };
}

/** Converts an output value to a tensor. @param place names the value in error messages */
function arrayOf(spec: TensorSpec, value: unknown, place: string): Tensor {
  const { array, faults } = typeof value === "string" ? arrayFromBytes(spec, value) : arrayFromLists(spec, value);
  const [fault] = faults;
  if (fault !== undefined) throw unfit(`${place}: ${fault.message}`);
  return array;
}

function numberColumn(dtype: DType, rows: readonly Tensor[], name: string): Column {
  const [first] = rows;
  const dims = first?.shape ?? [];
  for (const [i, { shape }] of rows.entries()) {
    if (shape.length === dims.length && shape.every((size, dim) => size === dims[dim])) continue;
    throw unfit(
      `output '${name}' has the shape [${shape}] in row ${i}, and [${dims}] in row 0: send the rows in separate requests`,
    );
  }
  const size = countOf(dims);
  const shape = [rows.length, ...dims];
  return {
    shape,
    list: () => rows.flatMap((row, i) => listOf(row, `output '${name}', row ${i}`)),
    bytes: () => {
      const all = new Uint8Array(rows.length * size * arrayTypes[dtype].BYTES_PER_ELEMENT);
      for (const [i, row] of rows.entries()) all.set(bytesOf(row), (i * all.length) / rows.length);
      return all;
    },
  };
}

declare global {
  interface JSON {
    /** Creates an object that `JSON.stringify` replaces by this JSON text. */
    rawJSON(text: string): object;
  }
}

/** The elements of a tensor for JSON. rawJSON() keeps every digit of an int64, which a JavaScript number cannot. */
function listOf({ dtype, data }: Tensor, place: string): unknown {
  const { lists, faults } = listsFromArray({ dtype, shape: [data.length], data });
  const [fault] = faults;
  if (fault === undefined) return lists;
  if (dtype === "int64") return [...data].map((value) => JSON.rawJSON(String(value)));
  throw unfit(`${place}: element ${fault.path[0] ?? 0} ${fault.message}; ask for its bytes with binary_data`);
}

/** The bytes of a data URI; for another URL, the URL as text. */
function fileBytes(url: string): Uint8Array {
  return isDataUrl(url) ? decodeDataUrl(url, Number.POSITIVE_INFINITY).bytes : Buffer.from(url);
}
