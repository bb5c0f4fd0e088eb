/** Converts the outputs of a prediction to the tensors of an inference response. */
import { decodeDataUrl, isDataUrl } from "../../../author/data-url.ts";
import { arrayFromBytes } from "../../../author/ndarray-bytes.ts";
import { arrayFromLists, listsFromArray } from "../../../author/ndarray-wire.ts";
import { bytesOfData, type Tensor, type TensorSpec } from "../../../author/tensor.ts";
import { joinedWithLengths } from "../../../base/bytes.ts";
import { isObject } from "../../../base/json.ts";
import type { WantedOutput } from "./infer-request.ts";
import { unfit } from "./tensors.ts";

/** A body of JSON, followed by the bytes of binary tensors. */
export interface ResponseBody {
  readonly json: string;
  readonly binary: readonly Uint8Array[];
}

interface Wanted {
  readonly wanted: readonly WantedOutput[];
  /** Whether each output is one tensor. Otherwise each output is an object with one tensor for each field. */
  readonly isWhole: boolean;
}

/**
 * Creates the body of the response.
 * @param rows the output of each row
 * @throws ProblemError 400 if rows differ in size, or a value does not fit the tensor's type
 */
export function responseBody(head: object, rows: readonly unknown[], { wanted, isWhole }: Wanted): ResponseBody {
  const binary: Uint8Array[] = [];
  const tensors = wanted.map((output) => {
    const { name, datatype } = output.field;
    const values = isWhole ? rows : rows.map((row) => (isObject(row) ? row[name] : undefined));
    const { shape, data } = tensorOf(output, values);
    const tensor = { name, datatype, shape };
    if (!(data instanceof Uint8Array)) return { ...tensor, data };
    binary.push(data);
    return { ...tensor, parameters: { binary_data_size: data.length } };
  });
  return { json: JSON.stringify({ ...head, outputs: tensors }), binary };
}

interface Encoded {
  readonly shape: readonly number[];
  /** Elements for JSON, or as bytes. */
  readonly data: readonly unknown[] | Uint8Array;
}

/** One output field as a tensor: its elements for JSON, or as bytes. */
function tensorOf({ field, isBinary }: WantedOutput, rows: readonly unknown[]): Encoded {
  const { name, values } = field;
  if (values.kind !== "numbers") {
    const { kind } = values;
    const texts = rows.map((row) => (kind === "json" ? JSON.stringify(row ?? null) : String(row)));
    const shape = [rows.length];
    if (!isBinary) return { shape, data: texts };
    const elements = texts.map((text) => (kind === "file" ? fileBytes(text) : Buffer.from(text)));
    return { shape, data: joinedWithLengths(elements) };
  }
  const { dtype, dims } = values;
  const place = (row: number) => `output '${name}', row ${row}`;
  const arrays = rows.map((row, i) => arrayOf({ dtype, dims }, row, place(i)));
  const sizes = arrays[0]?.shape ?? [];
  for (const [i, { shape }] of arrays.entries()) {
    if (shape.length === sizes.length && shape.every((size, dim) => size === sizes[dim])) continue;
    const sent = "send the rows in separate requests";
    throw unfit(`output '${name}' has the shape [${shape}] in row ${i}, and [${sizes}] in row 0: ${sent}`);
  }
  const shape = [rows.length, ...sizes];
  if (!isBinary) return { shape, data: arrays.flatMap((array, i) => listOf(array, place(i))) };
  return {
    shape,
    data: Bun.concatArrayBuffers(
      arrays.map(({ data }) => bytesOfData(data)),
      Infinity,
      true,
    ),
  };
}

/** Converts an output value to a tensor. @param place names the value in error messages */
function arrayOf(spec: TensorSpec, value: unknown, place: string): Tensor {
  const { array, faults } = typeof value === "string" ? arrayFromBytes(spec, value) : arrayFromLists(spec, value);
  const [fault] = faults;
  if (fault !== undefined) throw unfit(`${place}: ${fault.message}`);
  return array;
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
