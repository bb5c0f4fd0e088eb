/** Writes constants of an exported program as TorchScript. */
import { z } from "zod";
import type { whole } from "./program-schema.ts";

const MAX_INT64 = 2n ** 63n - 1n;

/**
 * Whether the text is an integer above every int64, which TorchScript cannot read. PyTorch prints such bounds of sizes.
 */
function isBeyondInt64(text: string): boolean {
  return /^\d+$/.test(text) && BigInt(text) > MAX_INT64;
}

/**
 * A comparison of sizes in TorchScript. A comparison with a bound beyond int64 becomes True or False, because every
 * size is smaller.
 */
export function comparison(left: string, sign: string, right: string): string {
  if (isBeyondInt64(left) && isBeyondInt64(right)) throw new Error("it compares integers beyond 64 bits");
  if (isBeyondInt64(right)) return ["<", "<=", "!="].includes(sign) ? "True" : "False";
  if (isBeyondInt64(left)) return [">", ">=", "!="].includes(sign) ? "True" : "False";
  return `${left} ${sign} ${right}`;
}

export function requireInt64(texts: readonly string[]): void {
  const beyond = texts.find(isBeyondInt64);
  if (beyond !== undefined) throw new Error(`it computes with the integer ${beyond}, which needs more than 64 bits`);
}

/** An integer as TorchScript. -(2^63) is safe, because TorchScript reads the sign with the number. */
export function integer(value: z.infer<typeof whole>): string {
  return String(value);
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

/** `JSON.parse`, except that integers too large for a double become bigint. */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, { source = "" }: { source?: string } = {}) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value,
  );
}
