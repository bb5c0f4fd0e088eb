/** Writes nested lists of numbers as NumPy file (`.npy`, version 1.0). `src/base/npy.ts` reads such files. */
import { SconceError } from "../../../base/errors.ts";
import { MAX_DIMENSIONS } from "../../../base/npy.ts";

const MAGIC = Buffer.from("\u0093NUMPY", "latin1");
const VERSION = Buffer.of(1, 0);
/** Number of bytes before the text of the header, in version 1.0. */
const PREFIX_BYTES = MAGIC.length + VERSION.length + 2;
/** The elements start at a multiple of this many bytes. */
const ALIGNMENT = 64;

/**
 * Encodes nested lists as NumPy file.
 * @param lists numbers become float64, or int64 if `isWhole`; booleans become bool
 * @throws SconceError `usage` for lists that differ in length, or values that are no elements of one dtype
 */
export function npyOf(lists: unknown, { isWhole }: { readonly isWhole: boolean }): Uint8Array {
  const shape: number[] = [];
  for (let list = lists; Array.isArray(list); list = list[0]) shape.push(list.length);
  if (shape.length > MAX_DIMENSIONS) throw noArray(`have more than ${MAX_DIMENSIONS} dimensions`);
  const elements = elementsOf(lists, shape);
  const [type, data] = stored(elements, isWhole);
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const begin = Math.ceil((PREFIX_BYTES + header.length + 1) / ALIGNMENT) * ALIGNMENT;
  const text = `${header.padEnd(begin - PREFIX_BYTES - 1)}\n`;
  const length = Buffer.alloc(2);
  length.writeUInt16LE(text.length);
  return Buffer.concat([MAGIC, VERSION, length, Buffer.from(text, "latin1"), Buffer.from(data.buffer)]);
}

/** The elements in row-major order. @throws SconceError unless each list has the length that `shape` has for its depth */
function elementsOf(lists: unknown, shape: readonly number[]): unknown[] {
  const elements: unknown[] = [];
  const visit = (value: unknown, depth: number) => {
    const size = shape[depth];
    const length = Array.isArray(value) ? value.length : undefined;
    if (length !== size) throw noArray("differ in length");
    if (!Array.isArray(value)) elements.push(value);
    else for (const each of value) visit(each, depth + 1);
  };
  visit(lists, 0);
  return elements;
}

function stored(elements: readonly unknown[], isWhole: boolean): readonly [type: string, data: NodeJS.TypedArray] {
  if (elements.length > 0 && elements.every((each) => typeof each === "boolean")) {
    return ["|b1", Uint8Array.from(elements, Number)];
  }
  if (!elements.every((each) => typeof each === "number")) throw noArray("contain values that are not numbers");
  if (isWhole) {
    const isInt64 = (each: number) => Number.isInteger(each) && each >= -(2 ** 63) && each < 2 ** 63;
    if (!elements.every(isInt64)) throw noArray("contain numbers that int64 cannot hold");
    return ["<i8", BigInt64Array.from(elements, BigInt)];
  }
  return ["<f8", Float64Array.from(elements)];
}

function noArray(why: string): SconceError {
  return new SconceError("usage", `the output cannot be saved as .npy: its lists ${why}`);
}
