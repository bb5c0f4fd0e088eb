/** Constants of an exported program as TorchScript writes them. */
import { z } from "zod";

/** Contiguous, channels last for pictures and for films, as it is. */
const memoryFormats: Readonly<Record<number, number>> = { 1: 0, 2: 2, 3: 3, 4: 1 };
const BFLOAT16 = 13;

/** From the number that the schema has for a dtype to libtorch's. */
export function libtorchDType(dtype: number): number {
  if (dtype === BFLOAT16) return 15;
  if (dtype >= 1 && dtype < BFLOAT16) return dtype - 1;
  throw new Error(`it has tensors of the dtype ${dtype} of its schema`);
}

/** From the number that the schema has for an order of the dimensions to libtorch's. */
export function libtorchMemoryFormat(format: number): string {
  const found = memoryFormats[format];
  if (found === undefined) throw new Error(`it asks for the memory format ${format} of its schema`);
  return String(found);
}

/** A whole number of 64 bits. */
export const whole = z.union([z.int(), z.bigint()]);

const MIN_INT64 = -(2n ** 63n);

/** TorchScript reads the digits of the smallest number before its sign, so it is written as a difference. */
export function integer(value: z.infer<typeof whole>): string {
  return BigInt(value) === MIN_INT64 ? `(${MIN_INT64 + 1n} - 1)` : String(value);
}

export function float(value: unknown): string {
  if (typeof value === "string") return `float(${JSON.stringify(value)})`;
  const number = z.number().parse(value);
  const text = Object.is(number, -0) ? "-0" : String(number);
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

export function truth(value: unknown): string {
  return z.boolean().parse(value) ? "True" : "False";
}

/** Parses JSON as `JSON.parse` does, but gives whole numbers that a double cannot hold as bigint. */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, { source = "" }: { source?: string } = {}) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value,
  );
}
