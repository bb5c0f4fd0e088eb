/** NumPy's file format (`.npy`): written in version 1.0 of numbers in nested lists, read in every version. */
import { SconceError } from "../../errors.ts";
import { arrayTypes, countOf, type DType } from "../../model/tensor.ts";

const MAGIC = Buffer.from("\u0093NUMPY", "latin1");
const VERSION = Buffer.of(1, 0);
/** From the begin of the file to the header's text, in version 1.0. */
const PREFIX_BYTES = MAGIC.length + VERSION.length + 2;
/** Where the elements begin is a multiple of it. */
const ALIGNMENT = 64;

/** NumPy's names of little-endian dtypes; it has none for bfloat16. */
const dtypes: ReadonlyMap<string, DType> = new Map([
  ["<f4", "float32"],
  ["<f8", "float64"],
  ["<f2", "float16"],
  ["|i1", "int8"],
  ["<i2", "int16"],
  ["<i4", "int32"],
  ["<i8", "int64"],
  ["|u1", "uint8"],
  ["|b1", "bool"],
]);

export interface NpyArray {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The elements, little-endian and in row-major order. */
  readonly data: Uint8Array;
}

/**
 * @returns undefined for what is not in NumPy's format
 * @throws SconceError `usage` for an array whose bytes would be read as another one, with what to do in NumPy
 */
export function parseNpy(bytes: Uint8Array): NpyArray | undefined {
  if (!MAGIC.equals(bytes.subarray(0, MAGIC.length))) return undefined;
  const { header, data } = split(bytes);
  const descr = /'descr': *'([^']*)'/.exec(header)?.[1];
  const order = /'fortran_order': *(True|False)/.exec(header)?.[1];
  const sizes = /'shape': *\(([\d, ]*)\)/.exec(header)?.[1];
  if (order === undefined || sizes === undefined) throw unreadable("its header is not one that NumPy writes");
  const dtype = dtypes.get(descr ?? "");
  if (dtype === undefined) throw noDType(descr);
  if (order === "True") throw unreadable("it is in Fortran order; save numpy.ascontiguousarray(array)");
  const shape = sizes
    .split(",")
    .filter((size) => size.trim() !== "")
    .map(Number);
  const expected = countOf(shape) * arrayTypes[dtype].BYTES_PER_ELEMENT;
  if (data.length !== expected) throw unreadable(`it has ${data.length} bytes of elements where ${expected} belong`);
  return { dtype, shape, data };
}

/** The length of the header has two bytes in version 1.0, and four in later ones. */
function split(bytes: Uint8Array): { readonly header: string; readonly data: Uint8Array } {
  const isFirst = bytes[MAGIC.length] === 1;
  const begin = PREFIX_BYTES + (isFirst ? 0 : 2);
  if (bytes.length < begin) throw unreadable("it is cut off");
  const at = MAGIC.length + VERSION.length;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = begin + (isFirst ? view.getUint16(at, true) : view.getUint32(at, true));
  return { header: new TextDecoder().decode(bytes.subarray(begin, end)), data: bytes.subarray(end) };
}

function noDType(descr: string | undefined): SconceError {
  if (descr === undefined) return unreadable("it holds records, and no array of numbers");
  const little = `<${descr.slice(1)}`;
  if (dtypes.has(little)) return unreadable(`its elements are big-endian; save array.astype("${little}")`);
  return unreadable(
    `it holds elements of NumPy's type ${descr}; save them as one of ${[...dtypes.values()].join(", ")}`,
  );
}

function unreadable(why: string): SconceError {
  return new SconceError("usage", why);
}

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
  if (!elements.every((each) => typeof each === "number")) throw noArray("hold something else than numbers");
  if (isWhole) return ["<i8", BigInt64Array.from(elements, BigInt)];
  return ["<f8", Float64Array.from(elements)];
}

function noArray(why: string): SconceError {
  return new SconceError("usage", `the output cannot be saved as .npy: its lists ${why}`);
}
