/** Reads all versions of NumPy's file format (`.npy`). Uses no platform APIs, so that it runs in browsers too. */

/** A number or boolean, or nested lists with one level per dimension. */
export type Lists = number | boolean | readonly Lists[];

type Read = (view: DataView, at: number) => number | boolean;

/** The magic bytes "\x93NUMPY", as a 32-bit and a 16-bit number. */
const MAGIC = [0x934e554d, 0x5059] as const;
/** Offset of the header length, after the magic bytes and the version. */
const LENGTH_AT = 8;
/** NumPy's limit of dimensions. */
const MAX_DIMENSIONS = 64;
/** Maximum bytes of a header that NumPy's `load` reads. */
const MAX_HEADER_BYTES = 10_000;
/** Lists allowed beyond 4 per element: a file of 100 bytes with the shape (10 ** 9, 0) would become a billion lists. */
const MAX_SPARE_LISTS = 2 ** 20;

/** Dtype, size in bytes and reader of an element, by the little-endian name that NumPy writes. */
const elements: ReadonlyMap<string, readonly [dtype: string, bytes: number, read: Read]> = new Map([
  ["<f2", ["float16", 2, (view, at) => view.getFloat16(at, true)]],
  ["<f4", ["float32", 4, (view, at) => view.getFloat32(at, true)]],
  ["<f8", ["float64", 8, (view, at) => view.getFloat64(at, true)]],
  ["|i1", ["int8", 1, (view, at) => view.getInt8(at)]],
  ["<i2", ["int16", 2, (view, at) => view.getInt16(at, true)]],
  ["<i4", ["int32", 4, (view, at) => view.getInt32(at, true)]],
  ["<i8", ["int64", 8, (view, at) => Number(view.getBigInt64(at, true))]],
  ["|u1", ["uint8", 1, (view, at) => view.getUint8(at)]],
  ["|b1", ["bool", 1, (view, at) => view.getUint8(at) !== 0]],
] satisfies [string, [string, number, Read]][]);

/** Names that other writers use and NumPy reads, without the character of the byte order. */
const otherNames: Readonly<Record<string, string>> = {
  ...{ float16: "f2", half: "f2", e: "f2", float32: "f4", single: "f4", f: "f4", float64: "f8", double: "f8", d: "f8" },
  ...{ float: "f8", int8: "i1", b: "i1", int16: "i2", h: "i2", int32: "i4", i: "i4", int64: "i8", int: "i8", q: "i8" },
  ...{ l: "i8", uint8: "u1", B: "u1", bool: "b1", "?": "b1" },
};

/** The name of a dtype as NumPy writes it: one byte has no order, and `=` is the order of the machine. */
function typeOf(descr: string): string {
  const [, order = "", given = ""] = /^([<>=|]?)(.*)$/.exec(descr) ?? [];
  const name = otherNames[given] ?? given;
  return `${/^[iub]1$/.test(name) ? "|" : order === ">" ? ">" : "<"}${name}`;
}

export interface NpyArray {
  /** Name of the dtype, e.g. `float32`. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The bytes of the elements, little-endian and in row-major order. */
  readonly bytes: Uint8Array;
  /** Reads an element by its index in row-major order. */
  readonly at: (index: number) => number | boolean;
}

/**
 * Reads an array from a `.npy` file.
 * @returns undefined if the magic bytes are missing
 * @throws Error with the reason, and the fix in NumPy
 */
export function arrayOfNpy(bytes: Uint8Array): NpyArray | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < LENGTH_AT || view.getUint32(0) !== MAGIC[0] || view.getUint16(4) !== MAGIC[1]) return undefined;
  const { header, begin } = headerOf(view);
  const descr = memberOf(header, "descr", /(?:'([^']*)'|"([^"]*)")/);
  const order = memberOf(header, "fortran_order", /(True|False)/);
  const sizes = memberOf(header, "shape", /\(((?:\s*\d+L?\s*,)*(?:\s*\d+L?)?)\s*\)/);
  // (6) is a number in Python, not a tuple.
  if (order === undefined || sizes === undefined || /^\s*\d+L?$/.test(sizes))
    throw new Error("its header is not valid");
  const type = typeOf(descr ?? "");
  const [dtype, size, read] = elements.get(type) ?? unknownType(descr, type);
  const shape = sizes.split(",").flatMap((each) => (each.trim() === "" ? [] : Number.parseInt(each, 10)));
  if (shape.length > MAX_DIMENSIONS)
    throw new Error(`it has ${shape.length} dimensions; NumPy has at most ${MAX_DIMENSIONS}`);
  const expected = shape.reduce((product, each) => product * each, size);
  const given = bytes.length - begin;
  if (given < expected) throw new Error(`it has ${given} bytes of elements; expected ${expected}`);
  // numpy.save() may have appended more arrays to the file. numpy.load() reads the first.
  const own = bytes.subarray(begin, begin + expected);
  const ordered = order === "True" ? rowMajor(own, shape, size) : own;
  const items = new DataView(ordered.buffer, ordered.byteOffset, ordered.byteLength);
  return { dtype, shape, bytes: ordered, at: (index) => read(items, index * size) };
}

/** The text of a member of the header, which is a dictionary of Python; undefined without one. */
function memberOf(header: string, name: string, value: RegExp): string | undefined {
  const [, ...found] = new RegExp(`(?:'${name}'|"${name}")\\s*:\\s*${value.source}`).exec(header) ?? [];
  return found.find((each) => each !== undefined);
}

/** Copies elements in Fortran order, whose first index changes fastest, to row-major order. */
function rowMajor(bytes: Uint8Array, shape: readonly number[], size: number): Uint8Array {
  if (shape.filter((each) => each !== 1).length <= 1) return bytes;
  const copy = new Uint8Array(bytes.length);
  const index = shape.map(() => 0);
  const strides = shape.map((_, i) => shape.slice(0, i).reduce((product, each) => product * each, size));
  for (let to = 0, from = 0; to < bytes.length; to += size) {
    copy.set(bytes.subarray(from, from + size), to);
    for (let i = shape.length - 1; i >= 0; i--) {
      const [length = 0, stride = 0, at = 0] = [shape[i], strides[i], index[i]];
      index[i] = at + 1 === length ? 0 : at + 1;
      from += at + 1 === length ? -at * stride : stride;
      if (at + 1 < length) break;
    }
  }
  return copy;
}

/**
 * Reads a `.npy` file as lists.
 * @returns undefined if the magic bytes are missing
 * @throws Error with the reason, and the fix in NumPy
 */
export function listsOfNpy(bytes: Uint8Array): Lists | undefined {
  const array = arrayOfNpy(bytes);
  if (array === undefined) return undefined;
  const { shape, at } = array;
  limitLists(shape);
  let index = 0;
  const listAt = (depth: number): Lists =>
    depth < shape.length ? Array.from({ length: shape[depth] ?? 0 }, () => listAt(depth + 1)) : at(index++);
  return listAt(0);
}

/** Refuses shapes with many empty lists: these take memory, but no bytes in the file. */
function limitLists(shape: readonly number[]): void {
  let [product, lists] = [1, 0];
  for (const size of shape) {
    lists += product;
    product *= size;
  }
  if (lists <= MAX_SPARE_LISTS + 4 * product) return;
  throw new Error(`it has ${product} elements in ${lists} lists; save it in another shape than (${shape.join(", ")})`);
}

/** Reads the header. The field of the length has two bytes in version 1.0, and four bytes in later versions. */
function headerOf(view: DataView): { readonly header: string; readonly begin: number } {
  const lengthBytes = view.getUint8(6) === 1 ? 2 : 4;
  const from = LENGTH_AT + lengthBytes;
  if (view.byteLength < from) throw new Error("it is cut off");
  const length = lengthBytes === 2 ? view.getUint16(LENGTH_AT, true) : view.getUint32(LENGTH_AT, true);
  if (length > MAX_HEADER_BYTES)
    throw new Error(`its header has ${length} bytes; NumPy reads at most ${MAX_HEADER_BYTES}`);
  const begin = Math.min(view.byteLength, from + length);
  const text = new Uint8Array(view.buffer, view.byteOffset + from, begin - from);
  return { header: new TextDecoder().decode(text), begin };
}

function unknownType(descr: string | undefined, type: string): never {
  if (descr === undefined) throw new Error("it holds records; expected an array of numbers");
  const little = type.replace(">", "<");
  if (type.startsWith(">") && elements.has(little))
    throw new Error(`its elements are big-endian; save array.astype("${little}")`);
  throw new Error(`it holds elements of NumPy's type ${descr}; save it as one of ${[...elements.keys()].join(", ")}`);
}
