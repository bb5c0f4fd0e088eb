/** Translates size arithmetic of an exported program to TorchScript. */
import { comparison, requireInt64 } from "./program-literals.ts";

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
