/** The dtypes of tensors. */
/** Typed array for each dtype. float16 and bfloat16 arrays hold raw bits; bool arrays hold 0 and 1. */
export const arrayTypes = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  bool: Uint8Array,
} as const;

export type DType = keyof typeof arrayTypes;

export function isDType(name: string): name is DType {
  return Object.hasOwn(arrayTypes, name);
}
