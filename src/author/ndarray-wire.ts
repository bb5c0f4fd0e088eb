/**
 * Tensors in JSON: reads and writes nested lists of numbers, and writes data URIs with the elements' bytes.
 * `ndarray-bytes.ts` reads data URIs.
 */
import { elements } from "./elements.ts";
import {
  type ArrayOf,
  arrayTypes,
  bytesOfData,
  countOf,
  type DType,
  ModelTensor,
  type Tensor,
  type TensorData,
  type TensorSpec,
} from "./tensor.ts";
import { base64Of } from "./withheld-files.ts";

/** A fault in a JSON value, with the path of indices to it. */
export interface ArrayFault {
  readonly path: readonly number[];
  readonly message: string;
}

/** A tensor read from JSON. With any fault, the array must not be used. */
export interface ReadArray<D extends DType> {
  readonly array: ModelTensor<D>;
  readonly faults: readonly ArrayFault[];
}

/** Maximum faults reported for one array, so that the error response stays small. */
const MAX_FAULTS = 1000;
/**
 * Limit on the product of the free sizes of an array without elements. A large size costs no bytes in the request, but
 * the other items of the batch are padded to it.
 */
const MAX_EMPTY_SIZES = 2 ** 20;

export function arrayFromLists<D extends DType>(spec: TensorSpec<D>, value: unknown): ReadArray<D> {
  const sizes = sizesOf(spec, value);
  const faults: ArrayFault[] = [];
  checkLists(value, { sizes, faults }, []);
  if (faults.length > 0) return { array: emptyOf(spec.dtype), faults };
  // Only a dimension inside an empty list has no known size.
  const shape = sizes.map((size) => size ?? 0);
  const data = newData(spec.dtype, countOf(shape));
  fill(data, value, { spec, shape, faults }, []);
  return { array: new ModelTensor(spec.dtype, shape, data), faults };
}

/**
 * Checks a tensor that was read from bytes: bool elements are 0 or 1, and the sizes of an empty tensor are not too
 * large.
 */
export function checkedArray<D extends DType>(spec: TensorSpec<D>, { dtype, shape, data }: Tensor<D>): ReadArray<D> {
  const fail = (message: string) => ({ array: emptyOf(dtype), faults: [{ path: [], message }] });
  if (data.length === 0 && emptySizes(spec, shape) > MAX_EMPTY_SIZES) {
    return fail(`the sizes ${shape.join("x")} are too large for an array without elements`);
  }
  const odd = dtype === "bool" ? data.findIndex((byte) => byte > 1) : -1;
  if (odd >= 0) return fail(`byte ${odd} is ${data[odd]}, but bool has only 0 and 1`);
  return { array: new ModelTensor(dtype, shape, data), faults: [] };
}

/**
 * Encodes a tensor's bytes as a data URI, which `arrayFromBytes` reads. Unlike lists, it can express NaN, infinities
 * and every int64.
 */
export function bytesFromArray({ shape, data }: Tensor): string {
  const sizes = shape.length === 0 ? "" : `;shape=${shape.join("x")}`;
  return `data:application/octet-stream${sizes};base64,${base64Of(bytesOfData(data))}`;
}

const none: ReadonlySet<unknown> = new Set();
let encodedAsBytes = none;

/**
 * Runs `make`. During this call, `ndarray` fields encode the tensors in `arrays` as bytes, and all other tensors as
 * lists.
 */
export function withBytesOf<T>(arrays: ReadonlySet<unknown>, make: () => T): T {
  encodedAsBytes = arrays;
  try {
    return make();
  } finally {
    encodedAsBytes = none;
  }
}

/** Encodes a tensor for a client: as bytes inside `withBytesOf`, otherwise as lists. */
export function wireOfArray(array: Tensor): { readonly wire: unknown; readonly faults: readonly ArrayFault[] } {
  if (encodedAsBytes.has(array)) return { wire: bytesFromArray(array), faults: [] };
  const { lists, faults } = listsFromArray(array);
  return { wire: lists, faults };
}

/** Encodes a tensor as nested lists. An element without a JSON representation, such as NaN, is a fault. */
export function listsFromArray({ dtype, shape, data }: Tensor): {
  readonly lists: unknown;
  readonly faults: readonly ArrayFault[];
} {
  const { write } = elements[dtype];
  const isPlain = dtype === "float32" || dtype === "float64";
  const values: unknown[] = [];
  const faults: ArrayFault[] = [];
  // A loop, because `Array.from` calls the typed array's iterator for each element.
  for (let i = 0; i < data.length; i++) {
    const stored = data[i] ?? 0;
    const value = isPlain ? stored : write(stored);
    values.push(value);
    // `write` returns undefined for NaN and infinities, which JSON lacks. For any other number, x * 0 is 0.
    if ((value === undefined || (typeof value === "number" && value * 0 !== 0)) && faults.length < MAX_FAULTS) {
      faults.push({ path: placeOf(i, shape), message: `is ${stored}, which JSON cannot express as a number` });
    }
  }
  return { lists: nested(values, shape), faults };
}

/**
 * Groups values into lists, from the innermost dimension outwards. A shape without dimensions gives the single value.
 */
function nested(values: readonly unknown[], shape: readonly number[]): unknown {
  let lists = values;
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    const [inner, size] = [lists, shape[dim] ?? 0];
    const count = countOf(shape.slice(0, dim));
    lists = count === 1 ? [inner] : Array.from({ length: count }, (_, i) => inner.slice(i * size, (i + 1) * size));
  }
  return lists[0];
}

/** The indices of element `i` in row-major order. */
function placeOf(i: number, shape: readonly number[]): number[] {
  let rest = i;
  const place = shape.toReversed().map((size) => {
    const index = rest % size;
    rest = Math.floor(rest / size);
    return index;
  });
  return place.toReversed();
}

/**
 * The sizes of the declared dimensions. A free size is the length of the first list at its depth; undefined without a
 * list.
 */
function sizesOf({ dims }: TensorSpec, value: unknown): (number | undefined)[] {
  let first = value;
  return dims.map((dim) => {
    const list = Array.isArray(first) ? first : undefined;
    first = list?.[0];
    return typeof dim === "number" ? dim : list?.length;
  });
}

interface Checking {
  readonly sizes: readonly (number | undefined)[];
  readonly faults: ArrayFault[];
}

/**
 * Checks the lengths of all lists before any element, so that memory is allocated only for a value of the right shape.
 */
function checkLists(value: unknown, checking: Checking, path: readonly number[]): void {
  const { sizes, faults } = checking;
  if (path.length === sizes.length || faults.length >= MAX_FAULTS) return;
  const size = sizes[path.length];
  const expected = size === undefined ? "expected a list" : `expected a list of ${size}`;
  if (!Array.isArray(value)) {
    faults.push({ path, message: `${expected}, received ${nameOf(value)}` });
  } else if (size !== undefined && value.length !== size) {
    faults.push({ path, message: `${expected}, received one of ${value.length}` });
  } else if (path.length + 1 < sizes.length) {
    for (let i = 0; i < value.length; i++) checkLists(value[i], checking, [...path, i]);
  }
}

interface FillArguments {
  readonly spec: TensorSpec;
  readonly shape: readonly number[];
  readonly faults: ArrayFault[];
}

function fill(data: TensorData, value: unknown, reading: FillArguments, path: readonly number[], offset = 0): number {
  const { spec, shape, faults } = reading;
  if (path.length < shape.length - 1 && Array.isArray(value)) {
    let at = offset;
    for (let i = 0; i < value.length; i++) at = fill(data, value[i], reading, [...path, i], at);
    return at;
  }
  const list = shape.length === 0 ? [value] : Array.isArray(value) ? value : [];
  const isPlain =
    data instanceof Float32Array || data instanceof Float64Array
      ? fillFloats(data, list, offset)
      : fillOthers(data, spec.dtype, list, offset);
  if (!isPlain) {
    const { read, expected } = elements[spec.dtype];
    for (const [i, element] of list.entries()) {
      if (read(element) !== undefined || faults.length >= MAX_FAULTS) continue;
      const received = typeof element === "number" ? element : nameOf(element);
      faults.push({
        path: shape.length === 0 ? path : [...path, i],
        message: `expected ${expected}, received ${received}`,
      });
    }
  }
  return offset + list.length;
}

/** Copies numbers without a function call for each. @returns false at the first element that the array cannot hold */
function fillFloats(data: Float32Array | Float64Array, list: readonly unknown[], offset: number): boolean {
  for (let i = 0; i < list.length; i++) {
    const value = list[i];
    if (typeof value !== "number") return false;
    data[offset + i] = value;
    // x * 0 is nonzero only for NaN and infinities.
    if ((data[offset + i] ?? Number.NaN) * 0 !== 0) return false;
  }
  return true;
}

function fillOthers(data: TensorData, dtype: DType, list: readonly unknown[], offset: number): boolean {
  const { read } = elements[dtype];
  for (let i = 0; i < list.length; i++) {
    const stored = read(list[i]);
    if (stored === undefined) return false;
    if (data instanceof BigInt64Array) data[offset + i] = BigInt(stored);
    else data[offset + i] = Number(stored);
  }
  return true;
}

/** Product of the free sizes, where 0 counts as 1. */
function emptySizes({ dims }: TensorSpec, shape: readonly number[]): number {
  return shape.reduce((product, size, i) => (typeof dims[i] === "number" || size === 0 ? product : product * size), 1);
}

export function newData<D extends DType>(dtype: D, count: number): ArrayOf<D> {
  // `arrayTypes` and `ArrayOf` have the same dtypes, which TypeScript cannot infer for a generic index.
  const Data: new (length: number) => TensorData = arrayTypes[dtype];
  return new Data(count) as ArrayOf<D>;
}

export function emptyOf<D extends DType>(dtype: D): ModelTensor<D> {
  return new ModelTensor(dtype, [0], newData(dtype, 0));
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
