/** Converts the tensors of an inference request to inputs of a prediction: each row becomes one input. */
import { arrayFromLists, bytesFromArray, listsFromArray } from "../../../author/ndarray-wire.ts";
import { arrayTypes, countOf, type DType, type Tensor, type TensorData } from "../../../author/tensor.ts";
import { parsedJson } from "../../../base/json.ts";
import { HELD_PER_BYTE, LARGE_BYTES } from "../../../pipeline/inputs/body.ts";
import { checkDepth, type InputValues } from "../../../pipeline/inputs/input-decoder.ts";
import { MAX_COST, sizeOfJson } from "../../../pipeline/inputs/json-text.ts";
import { MAX_MESSAGE_BYTES, messageTooLarge } from "../../body-reader.ts";
import { tooManyValues } from "../message.ts";
import { elementsIn } from "./byte-elements.ts";
import type { GivenTensor, InferRequest } from "./infer-request.ts";
import { datatypeOf, type NumberValues, unfit } from "./tensors.ts";

/** Characters counted for each field of each row besides its value, for JSON syntax and the memory of the value. */
const ROW_LENGTH = 128;
/** Maximum characters of JSON for a number in a list, and for one character of a string. */
const [NUMBER_LENGTH, CHARACTER_LENGTH] = [25, 6];

export interface PreparedInputs extends InputValues {
  /** Whether the schema check of the values would block the main thread. They then become JSON text, which a second thread checks. */
  readonly isCostly: boolean;
  /** Upper bound of the memory: characters of the JSON text, or bytes of the values. */
  readonly maxLength: number;
}

/** The values of one input tensor, by row. */
interface Column {
  /** `array`: rows of one typed array. `file`: URLs of files. `list`: lists, texts or JSON, whose elements the schema checks one by one. */
  readonly kind: "array" | "file" | "list";
  /** Upper bound of the JSON's characters for all rows. */
  readonly maxLength: number;
  /** Cost of the values that the schema checks one by one, by the rule of `sizeOfJson`. */
  readonly cost: number;
  /** The value of one row. @throws ProblemError 400 */
  readonly valueAt: (row: number) => unknown;
}

/**
 * Checks the tensors, and computes an upper bound of their memory. The result's function `values` creates the inputs later.
 * @throws ProblemError 400; 413 if the schema would check too many values one by one
 */
export function prepareInputs(
  { rows, inputs }: InferRequest,
  { isWhole }: { readonly isWhole: boolean },
): PreparedInputs {
  const columns = inputs.map((given) => ({
    name: given.field.name,
    ...(given.field.values.kind === "numbers" ? numberColumn(given, given.field.values) : byteColumn(given)),
  }));
  const valueAt = (row: number): unknown =>
    isWhole ? columns[0]?.valueAt(row) : Object.fromEntries(columns.map((each) => [each.name, each.valueAt(row)]));
  const lengthOf = (those: typeof columns) => those.reduce((sum, { maxLength }) => sum + maxLength, 0);
  const cost = columns.reduce((sum, column) => sum + column.cost, 0);
  if (cost > MAX_COST) throw tooManyValues();
  const isCostly = lengthOf(columns.filter(({ kind }) => kind === "list")) > LARGE_BYTES;
  const names = columns.reduce((sum, { name }) => sum + name.length + ROW_LENGTH, 0);
  return {
    count: rows,
    values: () => Array.from({ length: rows }, (_, row) => valueAt(row)),
    isCostly,
    maxLength: rows * names + lengthOf(isCostly ? columns : columns.filter(({ kind }) => kind !== "array")),
  };
}

function numberColumn(given: GivenTensor, { dtype, takesBytes }: NumberValues): Column {
  const { field, shape, data } = given;
  const dims = shape.slice(1);
  const count = countOf(shape);
  const elementBytes = arrayTypes[dtype].BYTES_PER_ELEMENT;
  if (data.form !== "json" && data.bytes.length !== count * elementBytes) {
    throw unfit(
      `input '${field.name}' has ${data.bytes.length} bytes, and ${datatypeOf(field)} of the shape [${shape}] has ${count * elementBytes}`,
    );
  }
  const all = data.form === "json" ? elementsOf(given, dtype).data : arrayOn(data.bytes, dtype);
  const size = countOf(dims);
  const arrayOf = (row: number): Tensor => ({ dtype, shape: dims, data: all.subarray(row * size, (row + 1) * size) });
  if (takesBytes) {
    // JSON.stringify() writes the bytes in base64, which is exact for every element.
    const valueAt = (row: number) => {
      const array = arrayOf(row);
      return { ...array, toJSON: () => bytesFromArray(array) };
    };
    return { kind: "array", cost: 0, maxLength: 2 * all.byteLength, valueAt };
  }
  const valueAt = (row: number) => {
    const { lists, faults } = listsFromArray(arrayOf(row));
    const [fault] = faults;
    if (fault !== undefined) throw unfit(`input '${field.name}', row ${row}: an element ${fault.message}`);
    return lists;
  };
  return { kind: "list", cost: count, maxLength: NUMBER_LENGTH * count, valueAt };
}

/** Views the bytes as a typed array. Copies bytes whose address is not aligned for the dtype. */
function arrayOn(bytes: Uint8Array, dtype: DType): TensorData {
  const Data: new (buffer: ArrayBufferLike, offset: number, length: number) => TensorData = arrayTypes[dtype];
  const elementBytes = arrayTypes[dtype].BYTES_PER_ELEMENT;
  const { buffer, byteOffset } = bytes.byteOffset % elementBytes === 0 ? bytes : bytes.slice();
  return new Data(buffer, byteOffset, bytes.length / elementBytes);
}

/** Converts a tensor in JSON, whose data may be flat or nested lists. */
function elementsOf({ field, shape, data }: GivenTensor, dtype: DType): Tensor {
  const list = data.form === "json" ? data.list.flat(shape.length) : [];
  refuseCount(field.name, list.length, shape);
  const { array, faults } = arrayFromLists({ dtype, dims: ["elements"] }, list);
  const [fault] = faults;
  if (fault !== undefined) throw unfit(`input '${field.name}', element ${fault.path[0] ?? 0}: ${fault.message}`);
  return array;
}

function byteColumn({ field, shape, data }: GivenTensor): Column {
  const { name, values } = field;
  const count = countOf(shape);
  const elementAt = data.form === "json" ? listElements(name, data.list, shape) : elementsIn(name, data, count);
  const { kind } = values;
  const isBinary = kind === "file" && values.takesText !== true;
  const fail = (row: number, message: string) => unfit(`input '${name}', row ${row}: ${message}`);
  const checkedAt = (row: number): string | Uint8Array => {
    const element = elementAt(row);
    if (isBinary && typeof element === "string" && !urlPattern.test(element)) throw fail(row, FILE_FORMS);
    if (typeof element === "string" || element instanceof Uint8Array) return element;
    throw fail(row, "expected a string");
  };
  const valueAt = (row: number) => {
    const element = checkedAt(row);
    if (kind === "file") return urlOf(element);
    const text = typeof element === "string" ? element : utf8Of(element);
    if (text === undefined) throw fail(row, "the bytes are not UTF-8");
    if (kind === "text") return text;
    const value = parsedJson(text);
    if (value === undefined) throw fail(row, "expected JSON");
    checkDepth(value);
    return value;
  };
  let length = 0;
  for (let row = 0; row < count; row++) length += checkedAt(row).length;
  if (kind === "file") return { kind, cost: 0, maxLength: 2 * length, valueAt };
  if (length > MAX_MESSAGE_BYTES) throw messageTooLarge();
  if (kind === "text") return { kind: "list", cost: count, maxLength: CHARACTER_LENGTH * length, valueAt };
  let [cost, valueBytes] = [0, 0];
  for (let row = 0; row < count && cost <= MAX_COST; row++) {
    const size = sizeOfJson(Buffer.from(checkedAt(row)));
    cost += size.cost;
    valueBytes += size.bytes;
  }
  return { kind: "list", cost, maxLength: 2 * length + valueBytes / HELD_PER_BYTE, valueAt };
}

/** The elements of a tensor in JSON, whose data may be flat or nested lists. */
function listElements(name: string, list: readonly unknown[], shape: readonly number[]): (index: number) => unknown {
  const elements = list.flat(shape.length);
  refuseCount(name, elements.length, shape);
  return (index) => elements[index];
}

const urlPattern = /^(?:https?:\/\/|data:)/i;
const FILE_FORMS =
  "expected a file as a URL (https://…, or data:image/png;base64,… with the media type of the file), or its bytes as binary data";

/** The URL of a file: text that is a URL stays, other content becomes a data URI. */
function urlOf(element: string | Uint8Array): string {
  const bytes = typeof element === "string" ? Buffer.from(element) : element;
  const isUrl = urlPattern.test(Buffer.from(bytes.subarray(0, 8)).toString("latin1"));
  const url = isUrl ? utf8Of(bytes) : undefined;
  return url ?? `data:application/octet-stream;base64,${bytes.toBase64()}`;
}

function utf8Of(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function refuseCount(name: string, count: number, shape: readonly number[]): void {
  if (count === countOf(shape)) return;
  throw unfit(`input '${name}' has ${count} elements, and its shape [${shape}] has ${countOf(shape)}`);
}
