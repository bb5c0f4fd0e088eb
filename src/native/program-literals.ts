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

/** JSON's numbers round the largest of 64 bits, which means to the end. */
export function integer(value: number): string {
  if (Number.isSafeInteger(value)) return String(value);
  if (value >= 2 ** 63) return "9223372036854775807";
  throw new Error(`it holds the number ${value}`);
}

export function float(value: unknown): string {
  if (typeof value === "string") return `float(${JSON.stringify(value)})`;
  const text = String(z.number().parse(value));
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

export function truth(value: unknown): string {
  return z.boolean().parse(value) ? "True" : "False";
}
