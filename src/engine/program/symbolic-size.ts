/** Parses a size of an exported program: a SymPy expression as printed by `sympy.srepr`. */

export interface LinearSize {
  readonly symbol: string;
  readonly factor: number;
  readonly offset: number;
}

const token = /\s*(?:Symbol\('(\w+)'[^)]*\)|Integer\((-?\d+)\)|(Add|Mul)\(|([,)]))/y;

/** Parses a size. @returns it as `factor * symbol + offset`; undefined for any other expression */
export function linearSize(expression: string): LinearSize | undefined {
  token.lastIndex = 0;
  const value = operand(expression);
  if (value?.symbol === undefined || token.lastIndex !== expression.length) return undefined;
  return { symbol: value.symbol, factor: value.factor, offset: value.offset };
}

interface Linear {
  readonly symbol: string | undefined;
  readonly factor: number;
  readonly offset: number;
}

function operand(text: string): Linear | undefined {
  const [, symbol, whole, operation] = token.exec(text) ?? [];
  if (symbol !== undefined) return { symbol, factor: 1, offset: 0 };
  if (whole !== undefined) return { symbol: undefined, factor: 0, offset: Number(whole) };
  if (operation === undefined) return undefined;
  let result = operand(text);
  for (;;) {
    const sign = token.exec(text)?.[4];
    if (sign === ")") return result;
    const next = sign === "," ? operand(text) : undefined;
    if (result === undefined || next === undefined) return undefined;
    result = operation === "Add" ? sum(result, next) : product(result, next);
  }
}

function sum(a: Linear, b: Linear): Linear | undefined {
  if (a.symbol !== undefined && b.symbol !== undefined && a.symbol !== b.symbol) return undefined;
  return { symbol: a.symbol ?? b.symbol, factor: a.factor + b.factor, offset: a.offset + b.offset };
}

function product(a: Linear, b: Linear): Linear | undefined {
  if (a.symbol !== undefined && b.symbol !== undefined) return undefined;
  const [number, other] = a.symbol === undefined ? [a.offset, b] : [b.offset, a];
  return { symbol: other.symbol, factor: number * other.factor, offset: number * other.offset };
}
