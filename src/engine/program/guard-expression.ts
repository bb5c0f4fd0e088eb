/**
 * Compiles a guard of an exported program to a function of the input shapes. A guard is a Python expression over input
 * sizes, as PyTorch prints it.
 */

/** The shapes of the program's inputs, in its order. The batch is the first size. */
export type Shapes = readonly (readonly number[])[];

/**
 * Computes a value from the shapes; a condition gives 1 or 0.
 * @throws Error for a result that Python cannot compute, or that a double does not hold exactly
 */
export type Computation = (shapes: Shapes) => number;

/** Gives the place of the input at a path; undefined if the program has no such input. */
export type InputPlace = (path: readonly string[]) => number | undefined;

const token =
  /\s*(?:(?<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)|(?<name>[A-Za-z_][\w.]*)|'(?<text>[^']*)'|(?<sign>\*\*|\/\/|[<>=!]=|[-+*/%<>()[\],.]))/y;

interface Token {
  readonly kind: "number" | "name" | "text" | "sign";
  readonly text: string;
}

type Operation = (a: number, b: number) => number;

/** How an operator joins two values. Operators of a higher level bind more tightly. */
interface Operator {
  readonly level: number;
  readonly join: (a: Computation, b: Computation) => Computation;
}

const [OR, AND, NOT, COMPARISON, SUM, PRODUCT, NEGATION, POWER] = [1, 2, 3, 4, 5, 6, 7, 8];

function operator(level: number, operation: Operation): Operator {
  return { level, join: (a, b) => joined(operation, a, b) };
}

function joined(operation: Operation, a: Computation, b: Computation): Computation {
  return (shapes) => operation(a(shapes), b(shapes));
}

const operators: ReadonlyMap<string, Operator> = new Map([
  ["or", { level: OR, join: (a, b) => (shapes) => a(shapes) || b(shapes) }],
  ["and", { level: AND, join: (a, b) => (shapes) => a(shapes) && b(shapes) }],
  ["==", operator(COMPARISON, (a, b) => Number(a === b))],
  ["!=", operator(COMPARISON, (a, b) => Number(a !== b))],
  ["<", operator(COMPARISON, (a, b) => Number(a < b))],
  ["<=", operator(COMPARISON, (a, b) => Number(a <= b))],
  [">", operator(COMPARISON, (a, b) => Number(a > b))],
  [">=", operator(COMPARISON, (a, b) => Number(a >= b))],
  ["+", operator(SUM, (a, b) => exact(a + b))],
  ["-", operator(SUM, (a, b) => exact(a - b))],
  ["*", operator(PRODUCT, (a, b) => exact(a * b))],
  ["//", operator(PRODUCT, (a, b) => exact((a - modulo(a, b)) / b))],
  ["/", operator(PRODUCT, (a, b) => exact(a / b))],
  ["%", operator(PRODUCT, (a, b) => exact(modulo(a, b)))],
  ["**", operator(POWER, (a, b) => exact(a ** b))],
]);

const same = (value: number) => value;

/** Functions of one value, by the name that PyTorch prints. */
const functions: Readonly<Record<string, (value: number) => number>> = {
  "torch.sym_float": same,
  float: same,
  "torch.sym_int": Math.trunc,
  int: Math.trunc,
  "math.trunc": Math.trunc,
  "math.floor": Math.floor,
  "math.ceil": Math.ceil,
  round: roundedToEven,
  abs: Math.abs,
};

const choices: Readonly<Record<string, Operation>> = {
  "torch.sym_max": Math.max,
  max: Math.max,
  Max: Math.max,
  "torch.sym_min": Math.min,
  min: Math.min,
  Min: Math.min,
};

/**
 * Compiles a guard.
 * @throws Error for an unsupported guard
 */
export function guardExpression(code: string, inputPlace: InputPlace): Computation {
  const reader = new Reader(tokens(code), inputPlace);
  const compute = reader.expression(OR);
  reader.end();
  return compute;
}

/** Returns the value if a double holds it exactly. */
function exact(value: number): number {
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return value;
  throw new Error("the guard divides by zero, or needs larger integers than 53 bits");
}

/** Python's remainder, which has the sign of the divisor. */
function modulo(a: number, b: number): number {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
}

/** Python rounds halves to the even neighbour. */
function roundedToEven(value: number): number {
  const above = Math.round(value);
  return above - value === 0.5 && above % 2 !== 0 ? above - 1 : above;
}

function tokens(code: string): Token[] {
  const found: Token[] = [];
  token.lastIndex = 0;
  const end = code.trimEnd().length;
  while (token.lastIndex < end) {
    const [kind, text] = Object.entries(token.exec(code)?.groups ?? {}).find(([, text]) => text !== undefined) ?? [];
    if (text === undefined) throw new Error("unknown sign");
    if (kind === "number" || kind === "name" || kind === "text" || kind === "sign") found.push({ kind, text });
  }
  return found;
}

class Reader {
  readonly #tokens: readonly Token[];
  readonly #inputPlace: InputPlace;
  #place = 0;

  constructor(all: readonly Token[], inputPlace: InputPlace) {
    this.#tokens = all;
    this.#inputPlace = inputPlace;
  }

  /** Reads a value, and all operators after it from a level on (precedence climbing). */
  expression(least: number): Computation {
    let value = this.#operand();
    let last = Infinity;
    for (;;) {
      const next = this.#tokens[this.#place];
      const found = next?.kind === "text" ? undefined : operators.get(next?.text ?? "");
      if (found === undefined || found.level < least) return value;
      if (found.level === COMPARISON && last === COMPARISON) throw new Error("comparisons in a row");
      this.#place += 1;
      value = found.join(value, this.expression(found.level + 1));
      last = found.level;
    }
  }

  end(): void {
    if (this.#place < this.#tokens.length) throw new Error("unexpected end");
  }

  #operand(): Computation {
    if (this.#accept("not")) {
      const negated = this.expression(NOT);
      return (shapes) => (negated(shapes) ? 0 : 1);
    }
    if (this.#accept("-")) {
      const negated = this.expression(NEGATION);
      return (shapes) => -negated(shapes);
    }
    if (this.#accept("(")) {
      const inner = this.expression(OR);
      this.#expect(")");
      return inner;
    }
    if (this.#tokens[this.#place]?.kind === "number") {
      const value = Number(this.#take("number"));
      return () => value;
    }
    const name = this.#take("name");
    if (name === "True" || name === "False") return () => Number(name === "True");
    return name === "L" ? this.#input() : this.#call(name);
  }

  #call(name: string): Computation {
    this.#expect("(");
    const first = this.expression(OR);
    const given = [first];
    while (this.#accept(",")) given.push(this.expression(OR));
    this.#expect(")");
    const apply = Object.hasOwn(functions, name) ? functions[name] : undefined;
    if (apply !== undefined && given.length === 1) return (shapes) => apply(first(shapes));
    const choose = Object.hasOwn(choices, name) ? choices[name] : undefined;
    if (choose === undefined || given.length < 2) throw new Error(`unknown call of ${name}`);
    return given.reduce((a, b) => joined(choose, a, b));
  }

  /** Parses a property of an input: `L['x'].size()[1]`, `L['x']['part'][0].stride()[0]`, `L['x'].storage_offset()`. */
  #input(): Computation {
    const path: string[] = [];
    while (this.#accept("[")) {
      const { kind, text } = this.#tokens[this.#place] ?? { kind: "sign", text: "" };
      if (kind !== "text" && kind !== "number") throw new Error("unknown index");
      path.push(text);
      this.#place += 1;
      this.#expect("]");
    }
    const input = this.#inputPlace(path);
    if (input === undefined) throw new Error(`no input ${path.join(".")}`);
    this.#expect(".");
    const method = this.#take("name");
    this.#expect("(");
    this.#expect(")");
    // The tensors of a batch are contiguous and begin their memory.
    if (method === "storage_offset") return () => 0;
    if (method !== "size" && method !== "stride") throw new Error(`unknown method ${method}`);
    this.#expect("[");
    const place = Number(this.#take("number"));
    this.#expect("]");
    return method === "size" ? sizeAt(input, place) : strideAt(input, place);
  }

  #accept(wanted: string): boolean {
    const { kind, text } = this.#tokens[this.#place] ?? { kind: "text", text: "" };
    if ((kind !== "sign" && kind !== "name") || text !== wanted) return false;
    this.#place += 1;
    return true;
  }

  #expect(text: string): void {
    if (!this.#accept(text)) throw new Error(`expected ${text}`);
  }

  #take(kind: Token["kind"]): string {
    const found = this.#tokens[this.#place];
    if (found?.kind !== kind) throw new Error(`expected a ${kind}`);
    this.#place += 1;
    return found.text;
  }
}

/** @throws Error, when called, for a tensor with fewer dimensions */
export function sizeAt(input: number, place: number): Computation {
  return (shapes) => {
    const size = shapes[input]?.[place];
    if (size === undefined) throw new Error(`input ${input} has no size ${place}`);
    return size;
  };
}

function strideAt(input: number, place: number): Computation {
  const size = sizeAt(input, place);
  return (shapes) => {
    size(shapes);
    const inner = shapes[input]?.slice(place + 1) ?? [];
    return inner.reduce((stride, each) => exact(stride * Math.max(1, each)), 1);
  };
}
