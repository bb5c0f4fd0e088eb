/** NumPy's file format (`.npy`, version 1.0) for numbers in nested lists. */
import { SconceError } from "../../errors.ts";

const MAGIC = "\u0093NUMPY\u0001\u0000";
/** Where the elements begin is a multiple of it. */
const ALIGNMENT = 64;

/**
 * @param lists numbers as float64, whole ones as int64 where `isWhole`, true and false as bool
 * @throws SconceError `usage` for lists that are no array
 */
export function npyOf(lists: unknown, { isWhole }: { readonly isWhole: boolean }): Uint8Array {
  const shape: number[] = [];
  for (let list = lists; Array.isArray(list); list = list[0]) shape.push(list.length);
  const elements = Array.isArray(lists) ? lists.flat(shape.length - 1) : [lists];
  if (elements.length !== shape.reduce((product, size) => product * size, 1)) throw noArray("differ in length");
  const [type, data] = stored(elements, isWhole);
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const begin = Math.ceil((MAGIC.length + 2 + header.length + 1) / ALIGNMENT) * ALIGNMENT;
  const text = `${header.padEnd(begin - MAGIC.length - 2 - 1)}\n`;
  const length = Buffer.alloc(2);
  length.writeUInt16LE(text.length);
  return Buffer.concat([Buffer.from(MAGIC, "latin1"), length, Buffer.from(text, "latin1"), Buffer.from(data.buffer)]);
}

function stored(elements: readonly unknown[], isWhole: boolean): readonly [type: string, data: NodeJS.TypedArray] {
  if (elements.length > 0 && elements.every((each) => typeof each === "boolean")) {
    return ["|b1", Uint8Array.from(elements, Number)];
  }
  if (!elements.every((each) => typeof each === "number")) throw noArray("hold something else than numbers");
  if (isWhole) return ["<i8", BigInt64Array.from(elements, BigInt)];
  return ["<f8", Float64Array.from(elements)];
}

function noArray(why: string): SconceError {
  return new SconceError("usage", `the output cannot be saved as .npy: its lists ${why}`);
}
