/** An ArrayBuffer with a typed array for each dtype, so that copying a tensor into it allocates nothing. */
import { arrayTypes, type DType, type Tensor, type TensorData } from "./tensor.ts";

/** Byte alignment at which a tensor of any dtype may start. */
export const ALIGNMENT = 8;

export type TensorMemory = Record<DType, TensorData> & {
  readonly buffer: ArrayBuffer;
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  readonly doubles: Float64Array;
};

/** Allocates memory. @param bytes minimum size, rounded up to a multiple of 8 */
export function tensorMemory(bytes: number): TensorMemory {
  return memoryOver(new ArrayBuffer(aligned(bytes)));
}

/** Creates the typed arrays over a buffer, whose size is a multiple of 8 bytes. */
export function memoryOver(buffer: ArrayBuffer): TensorMemory {
  const [uint8, uint16, float64] = [new Uint8Array(buffer), new Uint16Array(buffer), new Float64Array(buffer)];
  return {
    buffer,
    bytes: uint8,
    words: new Uint32Array(buffer),
    doubles: float64,
    float32: new Float32Array(buffer),
    float64,
    float16: uint16,
    bfloat16: uint16,
    int8: new Int8Array(buffer),
    int16: new Int16Array(buffer),
    int32: new Int32Array(buffer),
    int64: new BigInt64Array(buffer),
    uint8,
    bool: uint8,
  };
}

/** Rounds a byte offset up to the next valid start of a tensor. */
export function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

/** Copies elements from one array to another. Both must have one dtype, which TypeScript cannot check. */
export function setAt(to: TensorData, from: TensorData, at: number): void {
  if (to instanceof BigInt64Array) {
    if (from instanceof BigInt64Array) to.set(from, at);
  } else if (!(from instanceof BigInt64Array)) {
    to.set(from, at);
  }
}

/** A copy of a tensor. A copy of its data by `slice` would be a view if the data is a Buffer. */
export function copied({ dtype, shape, data }: Tensor): Tensor {
  const own = new arrayTypes[dtype](data.length);
  setAt(own, data, 0);
  return { dtype, shape, data: own };
}
