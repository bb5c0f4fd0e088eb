/** Writes nested lists of numbers as NumPy file (`.npy`, version 1.0). `src/base/npy.ts` reads such files. */
import { SconceError } from "../../../base/errors.ts";

const MAGIC = Buffer.from("\u0093NUMPY", "latin1");
const VERSION = Buffer.of(1, 0);
/** Number of bytes before the text of the header, in version 1.0. */
const PREFIX_BYTES = MAGIC.length + VERSION.length + 2;
/** The elements start at a multiple of this many bytes. */
const ALIGNMENT = 64;

/**
 * Encodes nested lists as NumPy file.
 * @param lists numbers become float64, or int64 if `isWhole`; booleans become bool
 * @throws SconceError `usage` for lists that differ in length
 */
export function npyOf(lists: unknown, { isWhole }: { readonly isWhole: boolean }): Uint8Array {
  const shape: number[] = [];
  for (let list = lists; Array.isArray(list); list = list[0]) shape.push(list.length);
  const elements = Array.isArray(lists) ? lists.flat(shape.length - 1) : [lists];
  if (elements.length !== shape.reduce((product, size) => product * size, 1)) throw noArray("differ in length");
  const [type, data] = stored(elements, isWhole);
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const begin = Math.ceil((PREFIX_BYTES + header.length + 1) / ALIGNMENT) * ALIGNMENT;
  const text = `${header.padEnd(begin - PREFIX_BYTES - 1)}\n`;
  const length = Buffer.alloc(2);
  length.writeUInt16LE(text.length);
  return Buffer.concat([MAGIC, VERSION, length, Buffer.from(text, "latin1"), Buffer.from(data.buffer)]);
}

function stored(elements: readonly unknown[], isWhole: boolean): readonly [type: string, data: NodeJS.TypedArray] {
  if (elements.length > 0 && elements.every((each) => typeof each === "boolean")) {
    return ["|b1", Uint8Array.from(elements, Number)];
  }
  if (!elements.every((each) => typeof each === "number")) throw noArray("contain values that are not numbers");
  if (isWhole) return ["<i8", BigInt64Array.from(elements, BigInt)];
  return ["<f8", Float64Array.from(elements)];
}

function noArray(why: string): SconceError {
  return new SconceError("usage", `the output cannot be saved as .npy: its lists ${why}`);
}
