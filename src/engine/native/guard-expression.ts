/**
 * Translates a guard of an exported program to TorchScript. A guard is a Python expression over input sizes, as PyTorch
 * prints it.
 */

import { comparison, requireInt64 } from "./program-literals.ts";
import { sizeFunctions } from "./symbolic-call.ts";

/** Gives the TorchScript text for the input at a path; undefined if the program has no such input. */
export type InputText = (path: readonly string[]) => string | undefined;

const token =
  /\s*(?:(?<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)|(?<name>[A-Za-z_][\w.]*)|'(?<text>[^']*)'|(?<sign>\*\*|\/\/|[<>=!]=|[-+*/%<>()[\],.]))/y;

interface Token {
  readonly kind: "number" | "name" | "text" | "sign";
  readonly text: string;
}

/** Functions in guards, by the name that PyTorch prints, with their TorchScript operators. */
const functions: Readonly<Record<string, string>> = {
  ...sizeFunctions,
  float: "_ops_aten.Float",
  int: "_ops_aten.Int",
  // Python and TorchScript both round halves to even.
  round: "_ops_aten.round",
  max: "_ops_prim.max",
  min: "_ops_prim.min",
  Max: "_ops_prim.max",
  Min: "_ops_prim.min",
  abs: "_ops_prim.abs",
};

const comparisons = ["==", "!=", "<", "<=", ">", ">="];
/** Supported integer exponents of sizes. TorchScript's integer power returns a float, so `x**3` becomes `x * x * x`. */
const PRODUCT = /^[1-4]$/;
const FLOAT = /^(\d+\.\d*|\(-\d+\.\d*\))$/;

/**
 * Translates a guard.
 * @returns the guard as a TorchScript expression
 * @throws Error for an unsupported guard
 */
export function guardExpression(code: string, inputText: InputText): string {
  const reader = new Reader(tokens(code), inputText);
  const text = reader.disjunction();
  reader.end();
  return text;
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
  readonly #inputText: InputText;
  #place = 0;

  constructor(all: readonly Token[], inputText: InputText) {
    this.#tokens = all;
    this.#inputText = inputText;
  }

  disjunction(): string {
    return this.#joined(["or"], () => this.#joined(["and"], () => this.#negation()));
  }

  end(): void {
    if (this.#place < this.#tokens.length) throw new Error("unexpected end");
  }

  #negation(): string {
    return this.#accept(["not"]) ? `(not ${this.#negation()})` : this.#comparison();
  }

  #comparison(): string {
    const left = this.#sum();
    const sign = this.#accept(comparisons);
    return sign === undefined ? left : `(${comparison(left, sign, this.#sum())})`;
  }

  #sum(): string {
    return this.#joined(["+", "-"], () => this.#joined(["*", "//", "/", "%"], () => this.#unary()));
  }

  #joined(signs: readonly string[], operand: () => string): string {
    let text = operand();
    for (let sign = this.#accept(signs); sign !== undefined; sign = this.#accept(signs)) {
      const next = operand();
      requireInt64([text, next]);
      text = `(${text} ${sign} ${next})`;
    }
    return text;
  }

  #unary(): string {
    return this.#accept(["-"]) ? `(-${this.#unary()})` : this.#power();
  }

  /** PyTorch writes `**2` for integers and `** 0.5`, `** (-1.0)` for floats. */
  #power(): string {
    const base = this.#operand();
    if (!this.#accept(["**"])) return base;
    const exponent = this.#operand();
    if (FLOAT.test(exponent)) return `_ops_aten.pow(_ops_aten.Float(${base}), ${exponent})`;
    if (!PRODUCT.test(exponent)) throw new Error("unknown exponent");
    return `(${Array(Number(exponent)).fill(base).join(" * ")})`;
  }

  #operand(): string {
    if (this.#accept(["("])) {
      const inner = this.disjunction();
      this.#expect(")");
      return inner;
    }
    if (this.#tokens[this.#place]?.kind === "number") return this.#take("number");
    const name = this.#take("name");
    if (name === "True" || name === "False") return name;
    if (name === "L") return this.#input();
    const called = Object.hasOwn(functions, name) ? functions[name] : undefined;
    if (called === undefined) throw new Error(`unknown name ${name}`);
    this.#expect("(");
    const given = [this.disjunction()];
    while (this.#accept([","])) given.push(this.disjunction());
    this.#expect(")");
    if (name === "round" && given.length > 1) throw new Error("a round to digits");
    requireInt64(given);
    return `${called}(${given.join(", ")})`;
  }

  /** Parses a property of an input: `L['x'].size()[1]`, `L['x']['part'][0].stride()[0]`, `L['x'].storage_offset()`. */
  #input(): string {
    const path: string[] = [];
    while (this.#accept(["["])) {
      const { kind, text } = this.#tokens[this.#place] ?? { kind: "sign", text: "" };
      if (kind !== "text" && kind !== "number") throw new Error("unknown index");
      path.push(text);
      this.#place += 1;
      this.#expect("]");
    }
    const input = this.#inputText(path);
    if (input === undefined) throw new Error(`no input ${path.join(".")}`);
    this.#expect(".");
    const method = this.#take("name");
    this.#expect("(");
    this.#expect(")");
    if (method === "storage_offset") return `${input}.storage_offset()`;
    if (method !== "size" && method !== "stride") throw new Error(`unknown method ${method}`);
    this.#expect("[");
    const place = this.#take("number");
    this.#expect("]");
    return `${input}.${method}(${place})`;
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
