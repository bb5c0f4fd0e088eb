/** The tensors of an inference request as the inputs of a prediction: one row is one input. */
import { arrayFromLists, bytesFromArray, listsFromArray } from "../../../../author/ndarray-wire.ts";
import { arrayTypes, countOf, type DType, type Tensor, type TensorData } from "../../../../author/tensor.ts";
import { LARGE_BYTES } from "../../../inputs/bodies.ts";
import type { InputValues } from "../../../inputs/input-decoder.ts";
import { decodeElements } from "./byte-elements.ts";
import type { GivenTensor, InferRequest } from "./infer-request.ts";
import { datatypeOf, type NumberValues, unfit } from "./tensors.ts";

/** The longest JSON around the value of a row, and memory for the value. */
const ROW_LENGTH = 128;
/** The longest JSON of a number in a list, and of a character. */
const [NUMBER_LENGTH, CHARACTER_LENGTH] = [25, 6];

export interface PreparedInputs extends InputValues {
  /** Whether the values take long to check, so that another thread should read their JSON. */
  readonly isCostly: boolean;
  /** Upper bound for the length of the JSON, or for the memory of the values. */
  readonly maxLength: number;
}

/** A tensor whose sizes are checked. */
interface Column {
  /** `array`: on the memory of the request. `list`: the schema checks each part of the value. */
  readonly kind: "array" | "file" | "list";
  /** Upper bound for the length of the JSON of all rows. */
  readonly maxLength: number;
  /** @throws ProblemError 400 */
  readonly valueAt: (row: number) => unknown;
}

/** @throws ProblemError 400 */
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
  const isCostly = lengthOf(columns.filter(({ kind }) => kind === "list")) > LARGE_BYTES;
  const names = columns.reduce((sum, { name }) => sum + name.length + ROW_LENGTH, 0);
  return {
    count: rows,
    values: () => Array.from({ length: rows }, (_, row) => valueAt(row)),
    isCostly,
    maxLength: rows * names + lengthOf(isCostly ? columns : columns.filter(({ kind }) => kind !== "array")),
  };
}

/** An array that JSON represents by its bytes. */
class RequestArray implements Tensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: TensorData;

  constructor({ dtype, shape, data }: Tensor) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
  }

  toJSON(): string {
    return bytesFromArray(this);
  }
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
    return { kind: "array", maxLength: 2 * all.byteLength, valueAt: (row) => new RequestArray(arrayOf(row)) };
  }
  const valueAt = (row: number) => {
    const { lists, faults } = listsFromArray(arrayOf(row));
    const [fault] = faults;
    if (fault !== undefined) throw unfit(`input '${field.name}', row ${row}: an element ${fault.message}`);
    return lists;
  };
  return { kind: "list", maxLength: NUMBER_LENGTH * count, valueAt };
}

/** The elements on the memory of the request if their alignment allows it, else a copy. */
function arrayOn(bytes: Uint8Array, dtype: DType): TensorData {
  const Data: new (buffer: ArrayBufferLike, offset: number, length: number) => TensorData = arrayTypes[dtype];
  const elementBytes = arrayTypes[dtype].BYTES_PER_ELEMENT;
  const { buffer, byteOffset } = bytes.byteOffset % elementBytes === 0 ? bytes : bytes.slice();
  return new Data(buffer, byteOffset, bytes.length / elementBytes);
}

/** The elements of JSON data, flat or nested. */
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
  const elements = data.form === "json" ? data.list.flat(shape.length) : decodeElements(name, data);
  refuseCount(name, elements.length, shape);
  const { kind } = values;
  const valueAt = (row: number) => {
    const element = elements[row];
    const fail = (message: string) => unfit(`input '${name}', row ${row}: ${message}`);
    if (!(typeof element === "string" || element instanceof Uint8Array)) throw fail("expected a string");
    if (kind === "file") return urlOf(element);
    const text = typeof element === "string" ? element : utf8Of(element);
    if (text === undefined) throw fail("the bytes are not UTF-8");
    if (kind === "text") return text;
    try {
      return JSON.parse(text);
    } catch {
      throw fail("expected JSON");
    }
  };
  const length = elements.reduce<number>(
    (sum, each) => sum + (each instanceof Uint8Array ? each.length : String(each).length),
    0,
  );
  if (kind === "file") return { kind, maxLength: 2 * length, valueAt };
  return { kind: "list", maxLength: (kind === "text" ? CHARACTER_LENGTH : 2) * length, valueAt };
}

const urlPattern = /^(?:https?:\/\/|data:)/i;

/** A URL as it is; other content as a data URI. */
function urlOf(element: string | Uint8Array): string {
  const start = typeof element === "string" ? element : Buffer.from(element.subarray(0, 8)).toString("latin1");
  if (urlPattern.test(start)) {
    const url = typeof element === "string" ? element : utf8Of(element);
    if (url !== undefined) return url;
  }
  const bytes = typeof element === "string" ? Buffer.from(element) : element;
  return `data:application/octet-stream;base64,${bytes.toBase64()}`;
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
