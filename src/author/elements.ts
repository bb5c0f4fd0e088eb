/** Conversion between tensor elements and JSON values, for each dtype. */

import type { JsonSchema } from "../base/schemas/json-schema.ts";
import type { DType } from "./dtype.ts";

/** An element of a typed array: bigint for int64, raw bits for 16-bit floats, 0 and 1 for bool. */
export type Stored = number | bigint;

/** An element as model code writes it. */
export type Value = number | bigint | boolean;

export interface Elements {
  /** Description of a valid JSON value, for error messages. */
  readonly expected: string;
  readonly schema: JsonSchema;
  /** Converts a JSON value; floats round to the nearest value of the dtype. @returns undefined for an invalid value */
  read(value: unknown): Stored | undefined;
  /** Converts to JSON. @returns undefined for NaN, infinities, and integers that a double cannot hold exactly */
  write(stored: Stored): number | boolean | undefined;
  /** Converts a value of model code. @returns undefined for a value that does not fit */
  store(value: Value): Stored | undefined;
  load(stored: Stored): number;
}

function floats(expected: string, store: (value: number) => number, load: (stored: number) => number): Elements {
  return {
    expected,
    schema: { type: "number" },
    read(value) {
      if (typeof value !== "number") return undefined;
      const stored = store(value);
      return Number.isFinite(load(stored)) ? stored : undefined;
    },
    write(stored) {
      const value = load(Number(stored));
      return Number.isFinite(value) ? value : undefined;
    },
    store: (value) => store(Number(value)),
    load: (stored) => load(Number(stored)),
  };
}

function integers(min: number, max: number): Elements {
  const read = (value: unknown) =>
    typeof value === "number" && Number.isInteger(value) && value >= min && value <= max ? value : undefined;
  return {
    expected: `a whole number from ${min} to ${max}`,
    schema: { type: "integer", minimum: min, maximum: max },
    read,
    write: Number,
    store: (value) => read(Number(value)),
    load: Number,
  };
}

const same = (value: number) => value;

export const elements: Readonly<Record<DType, Elements>> = {
  float32: floats("a number that float32 can hold", Math.fround, same),
  float64: floats("a number", same, same),
  float16: floats("a number that float16 can hold", float16Bits, fromFloat16Bits),
  bfloat16: floats("a number that bfloat16 can hold", bfloat16Bits, fromBfloat16Bits),
  int8: integers(-(2 ** 7), 2 ** 7 - 1),
  int16: integers(-(2 ** 15), 2 ** 15 - 1),
  int32: integers(-(2 ** 31), 2 ** 31 - 1),
  int64: {
    expected: "a whole number of at most 2^53 - 1 either side of 0",
    schema: { type: "integer" },
    read: (value) => (Number.isSafeInteger(value) ? BigInt(Number(value)) : undefined),
    write: (stored) => (Number.isSafeInteger(Number(stored)) ? Number(stored) : undefined),
    store(value) {
      if (typeof value === "bigint") return BigInt.asIntN(64, value) === value ? value : undefined;
      return Number.isSafeInteger(Number(value)) ? BigInt(value) : undefined;
    },
    load: Number,
  },
  uint8: integers(0, 2 ** 8 - 1),
  bool: {
    expected: "true or false",
    schema: { type: "boolean" },
    read: (value) => (typeof value === "boolean" ? Number(value) : undefined),
    write: (stored) => stored !== 0,
    store: (value) => (Number(value) === 0 || Number(value) === 1 ? Number(value) : undefined),
    load: Number,
  },
};

export function float16Bits(value: number): number {
  return new Uint16Array(Float16Array.of(value).buffer)[0] ?? 0;
}

function fromFloat16Bits(bits: number): number {
  return new Float16Array(Uint16Array.of(bits).buffer)[0] ?? 0;
}

/** The upper half of the float32's bits, rounded to the nearest value and ties to even. */
export function bfloat16Bits(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
  if (Number.isNaN(value)) return 0x7fc0;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

function fromBfloat16Bits(bits: number): number {
  return new Float32Array(Uint32Array.of(bits << 16).buffer)[0] ?? 0;
}
