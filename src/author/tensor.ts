/** Tensors as plain typed arrays with dtype and shape, and declarations of a model's tensors. */
import { SconceError } from "../base/errors.ts";
import { arrayTypes, type DType, isDType } from "./dtype.ts";
import { elements, type Value } from "./elements.ts";

export { arrayTypes, type DType, isDType };

/** The typed array of a dtype, over any kind of buffer: `InstanceType` would allow only `ArrayBuffer`. */
export type ArrayOf<D extends DType> = (typeof arrayTypes)[D]["prototype"];
export type TensorData = ArrayOf<DType>;

/** A tensor. Elements are in row-major order, and `data.length` is the product of `shape`. */
export interface Tensor<D extends DType = DType> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly data: ArrayOf<D>;
}

/**
 * A dimension whose size may differ between items. Shorter items are padded with `value` to the longest of the batch.
 */
export interface PaddedDim {
  readonly name: string;
  readonly value: number;
}

/** A fixed size, the name of a free size (items of one batch share it), or a padded size. */
export type Dim = number | string | PaddedDim;

/** Declaration of a tensor of one item, without the batch dimension. */
export interface TensorSpec<D extends DType = DType> {
  readonly dtype: D;
  readonly dims: readonly Dim[];
}

/** Tensor declarations by name. Their order matters for weights whose tensors have no names. */
export type TensorSpecs = Readonly<Record<string, TensorSpec>>;

/** Tensors that model code returns, by name, with the dtypes of `S`. */
export type TensorsOf<S extends TensorSpecs> = { readonly [K in keyof S]: Tensor<S[K]["dtype"]> };

/**
 * Tensors that model code receives, by name, with the dtypes of `S`. If the model declares no tensors, any name is
 * allowed.
 */
export type ModelTensorsOf<S extends TensorSpecs> = {
  // With `noUncheckedIndexedAccess`, every type except `any` would become a union with `undefined`.
  // biome-ignore lint/suspicious/noExplicitAny: only the weights file has the names and the dtypes
  readonly [K in keyof S]: string extends K ? any : ModelTensor<S[K]["dtype"]>;
};

export type NamedTensors = Readonly<Record<string, ModelTensor>>;

type Declare<D extends DType> = (...dims: readonly Dim[]) => TensorSpec<D>;

const declare =
  <D extends DType>(dtype: D): Declare<D> =>
  (...dims) => ({ dtype, dims });

export const float32: Declare<"float32"> = declare("float32");
export const float64: Declare<"float64"> = declare("float64");
export const float16: Declare<"float16"> = declare("float16");
export const bfloat16: Declare<"bfloat16"> = declare("bfloat16");
export const int8: Declare<"int8"> = declare("int8");
export const int16: Declare<"int16"> = declare("int16");
export const int32: Declare<"int32"> = declare("int32");
export const int64: Declare<"int64"> = declare("int64");
export const uint8: Declare<"uint8"> = declare("uint8");
export const bool: Declare<"bool"> = declare("bool");

/** Declares a dimension that is padded with `value` to the longest item of a batch, e.g. `int64(pad("tokens", 0))`. */
export function pad(name: string, value: number): PaddedDim {
  return { name, value };
}

/** Default dtype for a typed array. 16-bit floats and bool need an explicit dtype, since they share array types. */
type DTypeOf<A> = A extends Float32Array
  ? "float32"
  : A extends Float64Array
    ? "float64"
    : A extends BigInt64Array
      ? "int64"
      : A extends Int32Array
        ? "int32"
        : A extends Int16Array
          ? "int16"
          : A extends Int8Array
            ? "int8"
            : A extends Uint8Array
              ? "uint8"
              : never;

const dtypesOfArrays = new Map<unknown, DType>([
  [Float32Array, "float32"],
  [Float64Array, "float64"],
  [BigInt64Array, "int64"],
  [Int32Array, "int32"],
  [Int16Array, "int16"],
  [Int8Array, "int8"],
  [Uint8Array, "uint8"],
]);

/** A tensor in model code. */
export class ModelTensor<D extends DType = DType> implements Tensor<D> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly data: ArrayOf<D>;

  /** Checks nothing: the caller makes sure that data and shape fit. */
  constructor(dtype: D, shape: readonly number[], data: ArrayOf<D>) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
  }

  /**
   * The tensor's only element, as a number or a boolean. 16-bit floats are decoded.
   * @throws SconceError `tensor_invalid` if there is not exactly one element, or for an int64 beyond 2^53
   */
  item(): D extends "bool" ? boolean : number;
  item(): number | boolean {
    const [stored] = this.data;
    if (stored === undefined || this.data.length !== 1) {
      throw new SconceError("tensor_invalid", `item() is for 1 element, the tensor has ${this.data.length}`);
    }
    if (typeof stored === "bigint" && !Number.isSafeInteger(Number(stored))) {
      throw new SconceError("tensor_invalid", `item() cannot give ${stored} as a number; read data[0], a bigint`);
    }
    const value = elements[this.dtype].load(stored);
    return this.dtype === "bool" ? value !== 0 : value;
  }
}

/** The elements as numbers. Converts float16, bfloat16 and int64; returns the array of any other dtype itself. */
export function numbersOf({ dtype, data }: Tensor): ArrayLike<number> {
  if (data instanceof BigInt64Array) return Float64Array.from(data, Number);
  if (dtype === "float16") return new Float16Array(data.buffer, data.byteOffset, data.length);
  if (dtype !== "bfloat16") return data;
  const bits = Uint32Array.from(data, (upper) => upper << 16);
  return new Float32Array(bits.buffer);
}

/** Makes a tensor from values. A single value gets the shape `[]`; values without a shape become a vector. */
type Make<D extends DType> = (values: Value | Iterable<Value>, shape?: readonly number[]) => ModelTensor<D>;

interface TensorMaker extends Readonly<{ [D in DType]: Make<D> }> {
  <A extends TensorData>(data: A, shape?: readonly number[]): ModelTensor<DTypeOf<A>>;
  <D extends DType>(data: ArrayOf<D>, shape: readonly number[] | undefined, dtype: D): ModelTensor<D>;
}

/**
 * Creates a tensor of one item from a typed array. `tensor.int64([1, 2])` creates one from numbers; each dtype has such
 * a method.
 * @param data elements in row-major order
 * @param shape sizes without the batch dimension; their product is `data.length`. Default: a vector
 * @param dtype only for ambiguous arrays: `Uint16Array` (float16 or bfloat16 bits), and `Uint8Array` as bool
 * @throws SconceError `tensor_invalid` when shape and data do not match, or a value does not fit the dtype
 */
export const tensor: TensorMaker = Object.assign(tensorOfArray, {
  float32: makerOf("float32"),
  float64: makerOf("float64"),
  float16: makerOf("float16"),
  bfloat16: makerOf("bfloat16"),
  int8: makerOf("int8"),
  int16: makerOf("int16"),
  int32: makerOf("int32"),
  int64: makerOf("int64"),
  uint8: makerOf("uint8"),
  bool: makerOf("bool"),
});

function tensorOfArray<A extends TensorData>(data: A, shape?: readonly number[]): ModelTensor<DTypeOf<A>>;
function tensorOfArray<D extends DType>(
  data: ArrayOf<D>,
  shape: readonly number[] | undefined,
  dtype: D,
): ModelTensor<D>;
function tensorOfArray(data: TensorData, shape: readonly number[] = [data?.length], dtype?: DType): ModelTensor {
  if (!ArrayBuffer.isView(data)) {
    const given = data === null || data === undefined ? String(data) : typeof data;
    throw new SconceError(
      "tensor_invalid",
      `a tensor's data is a typed array, not ${given}; is an await missing before the call that made it?`,
    );
  }
  const inferred = dtype ?? dtypesOfArrays.get(data.constructor);
  if (inferred === undefined || !(data instanceof arrayTypes[inferred])) {
    throw new SconceError(
      "tensor_invalid",
      `${data.constructor.name} cannot hold ${dtype ?? "a known dtype"}; pass the dtype as third argument and an array that holds it`,
    );
  }
  let count = 1;
  for (const size of shape) {
    if (!isSize(size)) {
      throw new SconceError("tensor_invalid", `a tensor's shape has whole sizes of 0 and more, not [${shape}]`);
    }
    count *= size;
  }
  if (count !== data.length) {
    throw new SconceError("tensor_invalid", `shape [${shape}] has ${count} elements, but the data has ${data.length}`);
  }
  return new ModelTensor(inferred, shape, data);
}

function makerOf<D extends DType>(dtype: D): Make<D> {
  const { store, expected } = elements[dtype];
  return (values, shape) => {
    const isOne = typeof values !== "object";
    const list = isOne ? [values] : [...values];
    const data: TensorData = new arrayTypes[dtype](list.length);
    for (const [i, value] of list.entries()) {
      const stored = store(value);
      if (stored === undefined) throw new SconceError("tensor_invalid", `tensor.${dtype}: ${value} is not ${expected}`);
      if (data instanceof BigInt64Array) data[i] = BigInt(stored);
      else data[i] = Number(stored);
    }
    return tensorOfArray(data as ArrayOf<D>, shape ?? (isOne ? [] : undefined), dtype);
  };
}

/** The elements in `bytes`. Copies the bytes only if a typed array of the dtype cannot begin at their place. */
export function dataOfBytes<D extends DType>(dtype: D, bytes: Uint8Array): ArrayOf<D> {
  // `arrayTypes` and `ArrayOf` have the same dtypes, which TypeScript cannot infer for a generic index.
  const Data: new (buffer: ArrayBufferLike, offset: number, length: number) => TensorData = arrayTypes[dtype];
  const size = arrayTypes[dtype].BYTES_PER_ELEMENT;
  const { buffer, byteOffset } = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  return new Data(buffer, byteOffset, bytes.length / size) as ArrayOf<D>;
}

/** The memory of a tensor's elements. */
export function bytesOfData({ buffer, byteOffset, byteLength }: TensorData): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/**
 * Whether a value has the fields of a tensor. The shape and the data may contradict each other. Reads `data`: a session's tensor
 * leaves the device.
 */
export function isTensor(value: unknown): value is Tensor {
  return (
    typeof value === "object" &&
    value !== null &&
    "dtype" in value &&
    "shape" in value &&
    Array.isArray(value.shape) &&
    "data" in value &&
    ArrayBuffer.isView(value.data)
  );
}

export function isSize(size: number): boolean {
  return Number.isInteger(size) && size >= 0;
}

export function countOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** The declared sizes if all are fixed; undefined if any size is free or padded. */
export function fixedShape(dims: readonly Dim[]): number[] | undefined {
  const sizes = dims.filter((dim) => typeof dim === "number");
  return sizes.length < dims.length ? undefined : sizes;
}

/** Formats a declaration or a tensor as authors write it: `float32(3, height, width)`. */
export function describeTensor(dtype: DType, dims: readonly Dim[]): string {
  return `${dtype}(${dims.map((dim) => (typeof dim === "object" ? `pad ${dim.name}` : dim)).join(", ")})`;
}
