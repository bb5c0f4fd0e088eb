/** One memory as an array of each dtype, so that tensors are copied into it without an object made for each. */
import type { DType, TensorData } from "./tensor.ts";

/** Any element may begin where 8 divides. */
export const ALIGNMENT = 8;

export type TensorMemory = Record<DType, TensorData> & {
  readonly buffer: ArrayBuffer;
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  readonly doubles: Float64Array;
};

/** @param bytes at least; a whole number of 8 bytes is made of it */
export function tensorMemory(bytes: number): TensorMemory {
  return memoryOver(new ArrayBuffer(aligned(bytes)));
}

/** @param buffer of a whole number of 8 bytes */
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

/** The next place where a tensor may begin. */
export function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

/** Copies elements. Both arrays are of one dtype, which the type system does not see of a pair. */
export function setAt(to: TensorData, from: TensorData, at: number): void {
  if (to instanceof BigInt64Array) {
    if (from instanceof BigInt64Array) to.set(from, at);
  } else if (!(from instanceof BigInt64Array)) {
    to.set(from, at);
  }
}

/** The memory of the elements. */
export function bytesOf({ buffer, byteOffset, byteLength }: TensorData): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
