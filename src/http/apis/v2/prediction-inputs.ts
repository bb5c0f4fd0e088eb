/** Converts the tensors of an inference request to inputs of a prediction: each row becomes one input. */
import { arrayFromLists, bytesFromArray, listsFromArray } from "../../../author/ndarray-wire.ts";
import { arrayTypes, countOf, type DType, dataOfBytes, type Tensor, type TensorData } from "../../../author/tensor.ts";
import { splitByLengths, textOfUtf8 } from "../../../base/bytes.ts";
import { parsedJson } from "../../../base/json.ts";
import { MAX_COST, sizeOfJson } from "../../../base/json-text.ts";
import { HELD_PER_BYTE } from "../../../pipeline/inputs/body.ts";
import { checkDepth, type InputValues } from "../../../pipeline/inputs/input-decoder.ts";
import { MAX_MESSAGE_BYTES, messageTooLarge } from "../../body-reader.ts";
import { tooManyValues } from "../message.ts";
import type { GivenTensor, InferRequest } from "./infer-request.ts";
import { type NumberValues, unfit } from "./tensors.ts";

/** Bytes counted for each field of each row besides its value. */
const FIELD_BYTES = 128;
/** Maximum bytes of an input, as values or as JSON, for a byte of its tensor: a control character of a text has six in JSON. */
const GROWTH = 6;

export interface PreparedInputs extends InputValues {
  /** Upper bound of the bytes of the inputs, as values or as JSON text. */
  readonly maxBytes: number;
}

/** The values of one input tensor, by row. */
interface Column {
  /** Bytes of the values that the schema checks one by one: numbers in lists, texts and JSON. 0 for arrays and files. */
  readonly bytes: number;
  /** Number of these values, as `sizeOfJson` counts them. */
  readonly checks: number;
  /** Memory of parsed JSON beyond its bytes. */
  readonly parsedBytes?: number;
  /** The value of one row. @throws ProblemError 400 */
  readonly valueAt: (row: number) => unknown;
}

/**
 * Checks the tensors, and bounds the memory of the inputs. The result's function `values` creates the inputs later.
 * @throws ProblemError 400; 413 if the schema would check too many values one by one
 */
export function prepareInputs({ rows, inputs }: InferRequest, isWhole: boolean): PreparedInputs {
  const columns = inputs.map((given) => {
    const { name, values } = given.field;
    return { name, ...(values.kind === "numbers" ? numberColumn(given, values) : byteColumn(given)) };
  });
  const valueAt = (row: number): unknown =>
    isWhole ? columns[0]?.valueAt(row) : Object.fromEntries(columns.map((each) => [each.name, each.valueAt(row)]));
  const sum = (amount: (column: (typeof columns)[number]) => number) =>
    columns.reduce((all, column) => all + amount(column), 0);
  const checkedBytes = sum(({ bytes }) => bytes);
  if (checkedBytes > MAX_MESSAGE_BYTES) throw messageTooLarge();
  if (sum(({ checks }) => checks) > MAX_COST) throw tooManyValues();
  const parsedBytes = sum((column) => column.parsedBytes ?? 0) / HELD_PER_BYTE;
  return {
    count: rows,
    values: () => Array.from({ length: rows }, (_, row) => valueAt(row)),
    maxBytes: rows * sum(({ name }) => name.length + FIELD_BYTES) + GROWTH * checkedBytes + parsedBytes,
  };
}

function numberColumn(given: GivenTensor, { dtype, takesBytes }: NumberValues): Column {
  const { field, shape, data } = given;
  const all = data instanceof Uint8Array ? numbersIn(given, data, dtype) : elementsOf(given, data, dtype);
  const dims = shape.slice(1);
  const size = countOf(dims);
  const arrayOf = (row: number): Tensor => ({ dtype, shape: dims, data: all.subarray(row * size, (row + 1) * size) });
  if (takesBytes) {
    // JSON.stringify() writes the bytes in base64, which is exact for every element.
    const valueAt = (row: number) => {
      const array = arrayOf(row);
      return { ...array, toJSON: () => bytesFromArray(array) };
    };
    return { bytes: 0, checks: 0, valueAt };
  }
  const valueAt = (row: number) => {
    const { lists, faults } = listsFromArray(arrayOf(row));
    const [fault] = faults;
    if (fault !== undefined) throw unfit(`input '${field.name}', row ${row}: an element ${fault.message}`);
    return lists;
  };
  return { bytes: all.byteLength, checks: all.length, valueAt };
}

/** The elements in binary data. */
function numbersIn({ field, shape }: GivenTensor, bytes: Uint8Array, dtype: DType): TensorData {
  const expected = countOf(shape) * arrayTypes[dtype].BYTES_PER_ELEMENT;
  if (bytes.length === expected) return dataOfBytes(dtype, bytes);
  throw unfit(
    `input '${field.name}' has ${bytes.length} bytes, and ${field.datatype} of the shape [${shape}] has ${expected}`,
  );
}

/** Converts numbers in JSON. */
function elementsOf(given: GivenTensor, data: readonly unknown[], dtype: DType): TensorData {
  const { array, faults } = arrayFromLists({ dtype, dims: ["elements"] }, flat(given, data));
  const [fault] = faults;
  if (fault !== undefined) throw unfit(`input '${given.field.name}', element ${fault.path[0] ?? 0}: ${fault.message}`);
  return array.data;
}

/** The elements of a tensor in JSON, whose data may be flat or nested lists. */
function flat({ field, shape }: GivenTensor, data: readonly unknown[]): readonly unknown[] {
  const list = data.flat(shape.length);
  if (list.length === countOf(shape)) return list;
  throw unfit(`input '${field.name}' has ${list.length} elements, and its shape [${shape}] has ${countOf(shape)}`);
}

function byteColumn(given: GivenTensor): Column {
  const { name, values } = given.field;
  const { kind } = values;
  const { data } = given;
  const fail = (row: number, message: string) => unfit(`input '${name}', row ${row}: ${message}`);
  const list = data instanceof Uint8Array ? elementsIn(given, data) : flat(given, data);
  const elements = list.map((element, row): string | Uint8Array => {
    if (element instanceof Uint8Array) return element;
    if (typeof element !== "string") throw fail(row, "expected a string");
    if (kind === "file" && !values.takesText && !urlPattern.test(element)) throw fail(row, FILE_FORMS);
    return element;
  });
  const total = (amounts: readonly number[]) => amounts.reduce((sum, amount) => sum + amount, 0);
  const valueAt = (row: number) => {
    const element = elements[row] ?? "";
    if (kind === "file") return urlOf(element);
    const text = typeof element === "string" ? element : textOfUtf8(element);
    if (text === undefined) throw fail(row, "the bytes are not UTF-8");
    if (kind === "text") return text;
    const value = parsedJson(text);
    if (value === undefined) throw fail(row, "expected JSON");
    checkDepth(value);
    return value;
  };
  if (kind === "file") return { bytes: 0, checks: 0, valueAt };
  const bytes = total(elements.map(({ length }) => length));
  if (kind === "text") return { bytes, checks: elements.length, valueAt };
  const sizes = elements.map((element) => sizeOfJson(Buffer.from(element)));
  const [checks, parsedBytes] = [total(sizes.map(({ cost }) => cost)), total(sizes.map((size) => size.bytes))];
  return { bytes, checks, parsedBytes, valueAt };
}

/** The elements of a BYTES tensor in binary data. */
function elementsIn({ field, shape }: GivenTensor, bytes: Uint8Array): readonly Uint8Array[] {
  const elements = splitByLengths(bytes, countOf(shape));
  if (elements !== undefined) return elements;
  throw unfit(
    `the bytes of input '${field.name}' are not ${countOf(shape)} elements, each after its length as a little-endian u32`,
  );
}

const urlPattern = /^(?:https?:\/\/|data:)/i;
const FILE_FORMS =
  "expected a file as a URL (https://…, or data:image/png;base64,… with the media type of the file), or its bytes as binary data";

/** The URL of a file: text that is a URL stays, other content becomes a data URI. */
function urlOf(element: string | Uint8Array): string {
  const bytes = typeof element === "string" ? Buffer.from(element) : element;
  const isUrl = urlPattern.test(Buffer.from(bytes.subarray(0, 8)).toString("latin1"));
  const url = isUrl ? textOfUtf8(bytes) : undefined;
  return url ?? `data:application/octet-stream;base64,${bytes.toBase64()}`;
}
