/** Tensors in JSON as a data URI: with the bytes of the elements, or with a NumPy file (`.npy`). */
import { messageOf } from "../base/errors.ts";
import { arrayOfNpy, type NpyArray } from "../base/npy.ts";
import { decodeDataUrl, isDataUrl } from "./data-url.ts";
import { elements } from "./elements.ts";
import { checkedArray, emptyOf, newData, type ReadArray } from "./ndarray-wire.ts";
import {
  arrayTypes,
  countOf,
  type DType,
  dataOfBytes,
  describeTensor,
  ModelTensor,
  type TensorSpec,
} from "./tensor.ts";

/**
 * Reads a tensor from a data URI, as a NumPy file if the content begins like one, otherwise as the bytes of the
 * elements.
 */
export function arrayFromBytes<D extends DType>(spec: TensorSpec<D>, uri: string): ReadArray<D> {
  const declared = describeTensor(spec.dtype, spec.dims);
  if (!isDataUrl(uri)) {
    return refused(
      spec,
      `expected lists of numbers for ${declared}, or data:application/octet-stream;base64,… with their bytes`,
    );
  }
  let bytes: Uint8Array;
  let npy: NpyArray | undefined;
  try {
    ({ bytes } = decodeDataUrl(uri, Number.MAX_SAFE_INTEGER));
    npy = arrayOfNpy(bytes);
  } catch (error) {
    return refused(spec, messageOf(error));
  }
  if (npy !== undefined) return arrayFromNpy(spec, npy);
  const stated = statedShapeOf(uri);
  const count = bytes.length / arrayTypes[spec.dtype].BYTES_PER_ELEMENT;
  const shape = shapeOfBytes(spec, stated, count);
  if (shape !== undefined)
    return checkedArray(spec, new ModelTensor(spec.dtype, shape, dataOfBytes(spec.dtype, bytes)));
  if (stated !== undefined)
    return refused(spec, `${bytes.length} bytes with the sizes ${stated.join("x")} do not fit ${declared}`);
  return refused(spec, `${bytes.length} bytes do not fit ${declared}, ${expectedBytes(spec)}`);
}

function refused<D extends DType>({ dtype }: TensorSpec<D>, message: string): ReadArray<D> {
  return { array: emptyOf(dtype), faults: [{ path: [], message }] };
}

/** Reads a NumPy array. Converts elements of another dtype, if the declared dtype can hold them. */
function arrayFromNpy<D extends DType>(spec: TensorSpec<D>, npy: NpyArray): ReadArray<D> {
  const { dtype, dims } = spec;
  const { shape, bytes, at } = npy;
  const count = countOf(shape);
  if (shapeOfBytes(spec, shape, count) === undefined) {
    const declared = describeTensor(dtype, dims);
    return refused(spec, `a NumPy array of the shape (${shape.join(", ")}) does not fit ${declared}`);
  }
  if (npy.dtype === dtype) return checkedArray(spec, new ModelTensor(dtype, shape, dataOfBytes(dtype, bytes)));
  const { read, expected } = elements[dtype];
  const data = newData(dtype, count);
  for (let i = 0; i < count; i++) {
    const stored = read(at(i));
    if (stored === undefined)
      return refused(spec, `element ${i} of the NumPy array is ${at(i)}, but ${dtype} needs ${expected}`);
    if (data instanceof BigInt64Array) data[i] = BigInt(stored);
    else data[i] = Number(stored);
  }
  return checkedArray(spec, new ModelTensor(dtype, shape, data));
}

/** The end of an error message about a wrong number of bytes: the expected number. */
function expectedBytes({ dtype, dims }: TensorSpec): string {
  const size = arrayTypes[dtype].BYTES_PER_ELEMENT;
  const known = countOf(dims.map((dim) => (typeof dim === "number" ? dim : 1))) * size;
  const free = dims.filter((dim) => typeof dim !== "number").length;
  const each = `whose elements have ${size} ${size === 1 ? "byte" : "bytes"} each`;
  if (free > 1) return `${each}; say the sizes with ;shape=2x3 before ;base64`;
  if (free === 1) return `${each}: expected a multiple of ${known} bytes`;
  return `which has ${known} bytes`;
}

/** The shape in `;shape=2x3` before `;base64` of a data URI; undefined without it. */
function statedShapeOf(uri: string): readonly number[] | undefined {
  return /^data:[^,]*;\s*shape=(\d{1,15}(?:x\d{1,15})*)\s*(?:;|,)/i
    .exec(uri.slice(0, 1024))?.[1]
    ?.split("x")
    .map(Number);
}

function shapeOfBytes(
  { dims }: TensorSpec,
  stated: readonly number[] | undefined,
  count: number,
): readonly number[] | undefined {
  const known = dims.reduce<number>((product, dim) => product * (typeof dim === "number" ? dim : 1), 1);
  const shape = stated ?? dims.map((dim) => (typeof dim === "number" ? dim : count / known));
  const fits =
    shape.length === dims.length &&
    shape.every((size, i) => Number.isInteger(size) && (typeof dims[i] !== "number" || dims[i] === size)) &&
    countOf(shape) === count;
  return fits ? shape : undefined;
}
