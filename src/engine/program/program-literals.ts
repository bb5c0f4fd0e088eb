/** Writes constants and size arithmetic of an exported program as TorchScript. */
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
function comparison(left: string, sign: string, right: string): string {
  if (isBeyondInt64(left) && isBeyondInt64(right)) throw new Error("it compares integers beyond 64 bits");
  if (isBeyondInt64(right)) return ["<", "<=", "!="].includes(sign) ? "True" : "False";
  if (isBeyondInt64(left)) return [">", ">=", "!="].includes(sign) ? "True" : "False";
  return `${left} ${sign} ${right}`;
}

function requireInt64(texts: readonly string[]): void {
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

const infix: Readonly<Record<string, string>> = {
  "_operator.add": "+",
  "_operator.sub": "-",
  "_operator.mul": "*",
  "_operator.floordiv": "//",
  "_operator.truediv": "/",
  "_operator.mod": "%",
  "_operator.and_": "and",
  "_operator.or_": "or",
};

const comparisons: Readonly<Record<string, string>> = {
  "_operator.eq": "==",
  "_operator.ne": "!=",
  "_operator.lt": "<",
  "_operator.le": "<=",
  "_operator.gt": ">",
  "_operator.ge": ">=",
};

/** TorchScript's operators for the functions that PyTorch applies to sizes. */
const sizeFunctions: Readonly<Record<string, string>> = {
  "torch.sym_float": "_ops_aten.Float",
  "torch.sym_int": "_ops_aten.Int",
  "torch.sym_max": "_ops_prim.max",
  "torch.sym_min": "_ops_prim.min",
  "math.trunc": "_ops_aten.Int",
  "math.floor": "_ops_aten.floor",
  "math.ceil": "_ops_aten.ceil",
};

/**
 * Translates a call of size arithmetic.
 * @returns the TorchScript text; undefined when the target is not size arithmetic
 * @throws Error for an integer beyond 64 bits that is no bound
 */
export function symbolicCall(target: string, operands: readonly string[]): string | undefined {
  const [first = "", second = "", third = ""] = operands;
  const compared = comparisons[target];
  if (compared !== undefined) return comparison(first, compared, second);
  requireInt64(operands);
  const sign = infix[target];
  if (sign !== undefined && operands.length === 2) return `${first} ${sign} ${second}`;
  if (sizeFunctions[target] !== undefined) return `${sizeFunctions[target]}(${operands.join(", ")})`;
  switch (target) {
    case "_operator.neg":
      return `-${first}`;
    case "torch.sym_not":
      return `not ${first}`;
    case "torch.sym_ite":
      return `${second} if ${first} else ${third}`;
    case "_operator.pow":
      // Only positive exponents match: Python refuses a negative power of zero, and TorchScript does not.
      if (/^\d+\.\d+$/.test(second)) return `_ops_aten.pow(_ops_aten.Float(${first}), ${second})`;
      // TorchScript's integer power returns a float, so a small power becomes a product.
      return /^[1-4]$/.test(second) ? Array(Number(second)).fill(first).join(" * ") : undefined;
    default:
      return undefined;
  }
}
