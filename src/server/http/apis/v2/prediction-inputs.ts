/** The tensors of an inference request as the JSON inputs of a prediction: one row is one input. */
import { arrayFromLists, listsFromArray } from "../../../../author/ndarray-wire.ts";
import { arrayTypes, countOf, type DType, type Tensor } from "../../../../author/tensor.ts";
import { decodeElements } from "./byte-elements.ts";
import type { GivenTensor, InferRequest } from "./infer-request.ts";
import { bytesOf, datatypeOf, type NumberValues, unfit } from "./tensors.ts";

/** The longest JSON around the value of a row. */
const ROW_LENGTH = 128;
/** The longest JSON of a number in a list, and of a character. */
const [NUMBER_LENGTH, CHARACTER_LENGTH] = [25, 6];

export interface PreparedInputs {
  /** Upper bound for the length of the JSON. */
  readonly maxLength: number;
  /** @returns a JSON list. @throws ProblemError 400 */
  readonly json: () => string;
}

/** A tensor whose sizes are checked. */
interface Column {
  /** The length of the JSON of all rows. */
  readonly maxLength: number;
  readonly textOf: (row: number) => string;
}

/** @throws ProblemError 400 */
export function prepareInputs(
  { rows, inputs }: InferRequest,
  { isWhole }: { readonly isWhole: boolean },
): PreparedInputs {
  const columns = inputs.map((given) => ({
    name: isWhole ? "" : `${JSON.stringify(given.field.name)}:`,
    ...(given.field.values.kind === "numbers" ? numberColumn(given, given.field.values) : byteColumn(given)),
  }));
  const json = () => {
    const texts: string[] = [];
    for (let row = 0; row < rows; row++) {
      const members = columns.map(({ name, textOf }) => name + textOf(row)).join(",");
      texts.push(isWhole ? members : `{${members}}`);
    }
    return `[${texts.join(",")}]`;
  };
  return {
    maxLength: columns.reduce((sum, { name, maxLength }) => sum + maxLength + rows * (name.length + ROW_LENGTH), 0),
    json,
  };
}

function numberColumn(given: GivenTensor, { dtype, takesBytes }: NumberValues): Column {
  const { field, shape, data } = given;
  const dims = shape.slice(1);
  const count = countOf(shape);
  const elementBytes = arrayTypes[dtype].BYTES_PER_ELEMENT;
  const bytes = data.form === "json" ? bytesOf(elementsOf(given, dtype)) : data.bytes;
  if (bytes.length !== count * elementBytes) {
    throw unfit(
      `input '${field.name}' has ${bytes.length} bytes, and ${datatypeOf(field)} of the shape [${shape}] has ${count * elementBytes}`,
    );
  }
  const rowBytes = countOf(dims) * elementBytes;
  const rowOf = (row: number) => bytes.subarray(row * rowBytes, (row + 1) * rowBytes);
  if (takesBytes) {
    const head = `"data:application/octet-stream${dims.length === 0 ? "" : `;shape=${dims.join("x")}`};base64,`;
    return { maxLength: 2 * bytes.length, textOf: (row) => `${head}${rowOf(row).toBase64()}"` };
  }
  const textOf = (row: number) => {
    // Copied for alignment.
    const tensor: Tensor = { dtype, shape: dims, data: new arrayTypes[dtype](rowOf(row).slice().buffer) };
    const { lists, faults } = listsFromArray(tensor);
    const [fault] = faults;
    if (fault !== undefined) throw unfit(`input '${field.name}', row ${row}: an element ${fault.message}`);
    return JSON.stringify(lists);
  };
  return { maxLength: NUMBER_LENGTH * count, textOf };
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
  const textOf = (row: number) => {
    const element = elements[row];
    const fail = (message: string) => unfit(`input '${name}', row ${row}: ${message}`);
    if (!(typeof element === "string" || element instanceof Uint8Array)) throw fail("expected a string");
    if (kind === "file") return JSON.stringify(urlOf(element));
    const text = typeof element === "string" ? element : utf8Of(element);
    if (text === undefined) throw fail("the bytes are not UTF-8");
    if (kind === "text") return JSON.stringify(text);
    if (!isJsonText(text)) throw fail("expected JSON");
    return text;
  };
  const length = elements.reduce<number>(
    (sum, each) => sum + (each instanceof Uint8Array ? each.length : String(each).length),
    0,
  );
  return { maxLength: (kind === "text" ? CHARACTER_LENGTH : 2) * length, textOf };
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

function isJsonText(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function refuseCount(name: string, count: number, shape: readonly number[]): void {
  if (count === countOf(shape)) return;
  throw unfit(`input '${name}' has ${count} elements, and its shape [${shape}] has ${countOf(shape)}`);
}
