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

/** A part of a guard. `literal` is the text of a constant, with its sign. */
interface Part {
  readonly compute: Computation;
  readonly literal?: string;
}

type Operation = (a: number, b: number) => number;

const logic: Readonly<Record<string, (a: Computation, b: Computation) => Computation>> = {
  or: (a, b) => (shapes) => a(shapes) || b(shapes),
  and: (a, b) => (shapes) => a(shapes) && b(shapes),
};

const comparisons: Readonly<Record<string, Operation>> = {
  "==": (a, b) => Number(a === b),
  "!=": (a, b) => Number(a !== b),
  "<": (a, b) => Number(a < b),
  "<=": (a, b) => Number(a <= b),
  ">": (a, b) => Number(a > b),
  ">=": (a, b) => Number(a >= b),
};

const sums: Readonly<Record<string, Operation>> = {
  "+": (a, b) => exact(a + b),
  "-": (a, b) => exact(a - b),
};

const products: Readonly<Record<string, Operation>> = {
  "*": (a, b) => exact(a * b),
  "//": (a, b) => exact((a - modulo(a, b)) / b),
  "/": (a, b) => exact(a / b),
  "%": (a, b) => exact(modulo(a, b)),
};

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

/** Supported exponents: integers for which the power is a product, and floats. */
const EXPONENT = /^([1-4]|-?\d+\.\d*)$/;

/**
 * Compiles a guard.
 * @throws Error for an unsupported guard
 */
export function guardExpression(code: string, inputPlace: InputPlace): Computation {
  const reader = new Reader(tokens(code), inputPlace);
  const { compute } = reader.disjunction();
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

  disjunction(): Part {
    return this.#logical("or", () => this.#logical("and", () => this.#negation()));
  }

  end(): void {
    if (this.#place < this.#tokens.length) throw new Error("unexpected end");
  }

  #logical(word: string, operand: () => Part): Part {
    let part = operand();
    while (this.#accept([word])) {
      const joined = logic[word]?.(part.compute, operand().compute);
      if (joined !== undefined) part = { compute: joined };
    }
    return part;
  }

  #negation(): Part {
    if (!this.#accept(["not"])) return this.#comparison();
    const { compute } = this.#negation();
    return { compute: (shapes) => (compute(shapes) ? 0 : 1) };
  }

  #comparison(): Part {
    const left = this.#sum();
    const compare = this.#operation(comparisons);
    return compare === undefined ? left : applied(compare, left, this.#sum());
  }

  #sum(): Part {
    return this.#joined(sums, () => this.#joined(products, () => this.#unary()));
  }

  #joined(operations: Readonly<Record<string, Operation>>, operand: () => Part): Part {
    let part = operand();
    for (let next = this.#operation(operations); next !== undefined; next = this.#operation(operations)) {
      const other = operand();
      requireExact(part);
      requireExact(other);
      part = applied(next, part, other);
    }
    return part;
  }

  #unary(): Part {
    if (!this.#accept(["-"])) return this.#power();
    const { compute, literal } = this.#unary();
    return { compute: (shapes) => -compute(shapes), ...(literal !== undefined && { literal: `-${literal}` }) };
  }

  /** PyTorch writes `**2` for integers and `** 0.5`, `** (-1.0)` for floats. */
  #power(): Part {
    const base = this.#operand();
    if (!this.#accept(["**"])) return base;
    const exponent = this.#operand();
    if (!EXPONENT.test(exponent.literal ?? "")) throw new Error("unknown exponent");
    return applied((a, b) => exact(a ** b), base, exponent);
  }

  #operand(): Part {
    if (this.#accept(["("])) {
      const inner = this.disjunction();
      this.#expect(")");
      return inner;
    }
    if (this.#tokens[this.#place]?.kind === "number") {
      const literal = this.#take("number");
      const value = Number(literal);
      return { compute: () => value, literal };
    }
    const name = this.#take("name");
    if (name === "True" || name === "False") return { compute: () => Number(name === "True") };
    if (name === "L") return this.#input();
    return this.#call(name);
  }

  #call(name: string): Part {
    this.#expect("(");
    const first = this.disjunction();
    const given = [first];
    while (this.#accept([","])) given.push(this.disjunction());
    this.#expect(")");
    const apply = Object.hasOwn(functions, name) ? functions[name] : undefined;
    if (apply !== undefined && given.length === 1) return { compute: (shapes) => apply(first.compute(shapes)) };
    const choose = Object.hasOwn(choices, name) ? choices[name] : undefined;
    if (choose === undefined || given.length < 2) throw new Error(`unknown call of ${name}`);
    return given.reduce((part, next) => applied(choose, part, next));
  }

  /** Parses a property of an input: `L['x'].size()[1]`, `L['x']['part'][0].stride()[0]`, `L['x'].storage_offset()`. */
  #input(): Part {
    const path: string[] = [];
    while (this.#accept(["["])) {
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
    if (method === "storage_offset") return { compute: () => 0 };
    if (method !== "size" && method !== "stride") throw new Error(`unknown method ${method}`);
    this.#expect("[");
    const place = Number(this.#take("number"));
    this.#expect("]");
    return { compute: method === "size" ? sizeAt(input, place) : strideAt(input, place) };
  }

  #operation(operations: Readonly<Record<string, Operation>>): Operation | undefined {
    const sign = this.#accept(Object.keys(operations));
    return sign === undefined ? undefined : operations[sign];
  }

  #accept(texts: readonly string[]): string | undefined {
    const { kind, text } = this.#tokens[this.#place] ?? { kind: "text", text: "" };
    if ((kind !== "sign" && kind !== "name") || !texts.includes(text)) return undefined;
    this.#place += 1;
    return text;
  }

  #expect(text: string): void {
    if (this.#accept([text]) === undefined) throw new Error(`expected ${text}`);
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

function applied(operation: Operation, left: Part, right: Part): Part {
  const [a, b] = [left.compute, right.compute];
  return { compute: (shapes) => operation(a(shapes), b(shapes)) };
}

function requireExact({ literal }: Part): void {
  if (literal !== undefined && Math.abs(Number(literal)) > Number.MAX_SAFE_INTEGER)
    throw new Error(`it computes with ${literal}, which needs more than 53 bits`);
}
