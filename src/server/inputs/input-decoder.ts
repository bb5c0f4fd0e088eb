/** From JSON to decoded inputs, or to a problem that names every fault. */

import { defaultBytes, hasCostlyLists, isRecursive, limitFaults } from "../../author/fault-limit.ts";
import { type PlainCheck, plainCheck } from "../../author/plain-check.ts";
import { withoutUnions } from "../../author/union-issues.ts";
import * as z from "../../author/z.ts";
import { closest } from "../../base/closest.ts";
import { type Fault, messageOf, SconceError } from "../../base/errors.ts";
import { isObject, pointerTo } from "../../base/json.ts";
import { type Expected, expectedKinds } from "./expected-kinds.ts";
import { faultPlace, isTooDeep } from "./json-text.ts";

/** A body can hold more faults than anyone reads; more would only make a small request a large answer. */
export const MAX_FAULTS = 1000;

/** Measured 372 for `[]`, 315 for an object. */
const NESTED_BYTES = 400;

export class InputDecoder {
  readonly #input: z.ZodType;
  readonly #isPlain: PlainCheck | undefined;
  readonly #isRecursive: boolean;
  readonly #isElsewhere: boolean;
  readonly hasCostlyLists: boolean;
  /** Memory of a list or an object within an input that is nearly empty, with the defaults that it gets; measured, rounded up. */
  readonly nestedBytes: number;
  #expected: Expected | undefined;

  /**
   * @param input the schema of one input, which is changed to stop when there are more faults than are told
   * @param options.isElsewhere on another thread than the model's: what the schema's own code throws may be for that, and is thrown on
   */
  constructor(input: z.ZodType, { isElsewhere = false }: { readonly isElsewhere?: boolean } = {}) {
    this.#isElsewhere = isElsewhere;
    limitFaults(input, MAX_FAULTS);
    this.#isRecursive = isRecursive(input);
    this.#input = input;
    this.#isPlain = plainCheck(input);
    this.hasCostlyLists = hasCostlyLists(input);
    this.nestedBytes = NESTED_BYTES + defaultBytes(input);
  }

  /** Kinds of JSON values that an input takes. */
  get expected(): Expected {
    this.#expected ??= expectedKinds(this.#input);
    return this.#expected;
  }

  /**
   * @param body the text of a whole body
   * @throws SconceError `body_invalid` or `inputs_invalid`
   */
  body(body: string, maxInputs: number): unknown[] {
    const list = listOf(parseJson(body), maxInputs);
    if (this.#areAllPlain(list)) return list;
    const faults = new Faults();
    const inputs = this.list(list, 0, faults);
    faults.refuse();
    return inputs;
  }

  /** As nearly all are. */
  #areAllPlain(list: readonly unknown[]): boolean {
    if (this.#isPlain === undefined) return false;
    for (let i = 0; i < list.length; i++) if (!this.#isPlain(list[i])) return false;
    return true;
  }

  /** @param first the index of the first element in its body; stops when there are more faults than are told */
  list(list: readonly unknown[], first: number, faults: Faults): unknown[] {
    const inputs: unknown[] = [];
    for (let i = 0; i < list.length && !faults.isFull; i++) {
      const element = list[i];
      if (this.#isPlain?.(element)) {
        inputs.push(element);
        continue;
      }
      const isDeep = isTooDeep(element);
      if (isDeep && this.#isRecursive) throw tooDeep();
      const parsed = this.#parse(element);
      // A schema that does not follow it has faults to tell of; one that takes it unseen leaves it to others to follow.
      if (isDeep && parsed.success) throw tooDeep();
      if (parsed.success) inputs.push(parsed.data);
      else faults.add(parsed.error.issues, [first + i], { input: element, expected: this.expected });
    }
    return inputs;
  }

  /** @throws SconceError `inputs_invalid` for an input that is nested more deeply than the schema can be followed */
  #parse(input: unknown) {
    try {
      return this.#input.safeParse(input);
    } catch (error) {
      if (isStackOverflow(error)) throw tooDeep();
      if (this.#isElsewhere) throw error;
      return { success: false, error: { issues: [thrownIssue(this.#input, input, error)] } } as const;
    }
  }
}

/** An input, and what its schema takes. */
interface Checked {
  readonly input: unknown;
  readonly expected: Expected;
}

/** Longer names are not looked for among the fields. */
const MAX_NAME = 64;

/** The fields that the object at a place of an input lacks. */
function missingFields({ input, expected }: Checked, path: readonly PropertyKey[]): string[] {
  let value: unknown = input;
  let fields: Expected | undefined = expected;
  for (const key of path) {
    if (Array.isArray(value)) fields = fields?.first?.[Number(key)] ?? fields?.items;
    else fields = fields?.fields?.get(String(key)) ?? fields?.others;
    value = typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
  }
  const known = [...(fields?.fields?.keys() ?? [])];
  return known.filter((name) => !(isObject(value) && Object.hasOwn(value, name)));
}

/** What is wrong with a body. */
export class Faults {
  readonly #faults: Fault[] = [];

  /** Beyond what is told nothing more is looked for: finding a fault costs far more than finding none. */
  get isFull(): boolean {
    return this.#faults.length > MAX_FAULTS;
  }

  get count(): number {
    return this.#faults.length;
  }

  /** The zod issues of one input as faults: one for each unknown field, and for a union those of its nearest option. */
  add(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[], checked: Checked): void {
    for (const each of withoutUnions(issues)) this.#add(each, base, checked);
  }

  #add(issue: z.core.$ZodIssue, base: readonly PropertyKey[], checked: Checked): void {
    const path = [...base, ...issue.path];
    if (issue.code === "unrecognized_keys") {
      const keys = issue.keys.slice(0, MAX_FAULTS + 1);
      const missing = missingFields(checked, issue.path);
      for (const key of keys) {
        const near = key.length > MAX_NAME ? undefined : closest(key, missing);
        const hint = near === undefined ? "" : `; did you mean ${near}?`;
        this.#faults.push({ pointer: pointerTo([...path, key]), detail: `is not a field of this input${hint}` });
      }
      return;
    }
    this.#faults.push({ pointer: pointerTo(path), detail: detailOf(issue.message) });
  }

  /** @throws SconceError `inputs_invalid` if there are faults */
  refuse(): void {
    if (this.#faults.length > 0) throw unfit(this.#faults);
  }
}

/** Before every element is looked at: a list that is too long is refused for its length alone. */
function listOf(body: unknown, maxInputs: number): unknown[] {
  if (!Array.isArray(body)) throw notList(nameOf(body));
  if (body.length === 0) throw unfit([{ pointer: "", detail: "expected at least one input, received an empty list" }]);
  refuseTooMany(body.length, maxInputs);
  return body;
}

export function notList(received: string): SconceError {
  return unfit([{ pointer: "", detail: `expected a list of inputs, received ${received}; put a single input in [ ]` }]);
}

/** @throws SconceError `inputs_invalid` */
export function refuseTooMany(count: number, maxInputs: number): void {
  if (count <= maxInputs) return;
  throw unfit([
    {
      pointer: "",
      detail: `expected at most ${maxInputs} inputs, received ${count}; send them in several requests`,
    },
  ]);
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The text of bytes, less a byte order mark.
 * @throws SconceError `body_invalid`
 */
export function utf8(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes);
  } catch (error) {
    throw notJson("the body is not JSON: it is not UTF-8", error);
  }
}

export function notJson(message: string, cause?: unknown): SconceError {
  return new SconceError("body_invalid", message, { cause });
}

function parseJson(text: string): unknown {
  if (text === "") throw notJson("expected a JSON list of inputs, received an empty body");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw notJson(`the body is not JSON: ${reasonOf(error, text)}`, error);
  }
}

function reasonOf(error: unknown, text: string): string {
  if (error instanceof RangeError) return "it is nested too deeply";
  const reason = error instanceof Error ? error.message.replace(/^JSON Parse error: /, "") : "it cannot be parsed";
  return `${reason} (${faultPlace(Buffer.from(text))})`;
}

export function unfit(faults: readonly Fault[]): SconceError {
  const shown = faults.slice(0, MAX_FAULTS);
  const [first] = shown;
  const count = faults.length > MAX_FAULTS ? `more than ${MAX_FAULTS} faults` : `${faults.length} faults`;
  const one = first === undefined ? "" : `${first.pointer === "" ? "" : `${first.pointer}: `}${first.detail}`;
  const message = faults.length === 1 ? one : `${count}, the first: ${one}`;
  return new SconceError("inputs_invalid", message, { faults: shown });
}

function isStackOverflow(error: unknown): boolean {
  return error instanceof RangeError && error.message.startsWith("Maximum call stack");
}

/** @returns the error for an input of more levels than are taken */
export function tooDeep(): SconceError {
  return unfit([{ pointer: "", detail: "an input is nested too deeply" }]);
}

/** zod's message in the words of all the others: what was expected, what was received. */
function detailOf(message: string): string {
  return message.replace(/^Invalid input: /, "").replace(/received undefined$/, "but it is missing");
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** @throws `error` itself where not the data is at fault: the schema is asynchronous */
export function thrownIssue(schema: z.core.$ZodType, input: unknown, error: unknown): z.core.$ZodIssue {
  if (error instanceof z.core.$ZodAsyncError) throw error;
  return { code: "custom", path: pathTo(schema, input), message: messageOf(error), input };
}

/** Each level parses again what lies below it, so an input that is nested deeply must not cost its depth squared. */
const MAX_LEVELS = 32;

/** zod does not say where a schema threw: the part of the input that throws by itself is looked for. */
function pathTo(schema: z.core.$ZodType, input: unknown, level = 0): PropertyKey[] {
  if (level === MAX_LEVELS) return [];
  for (const [key, part, value] of partsOf(schema, input)) {
    if (throws(part, value)) return [...(key === undefined ? [] : [key]), ...pathTo(part, value, level + 1)];
  }
  return [];
}

type Part = readonly [key: PropertyKey | undefined, schema: z.core.$ZodType, value: unknown];

function partsOf(schema: z.core.$ZodType, input: unknown): Part[] {
  if (schema instanceof z.ZodObject && typeof input === "object" && input !== null) {
    const given = new Map(Object.entries(input));
    return Object.entries(schema._zod.def.shape).map(([key, field]) => [key, field, given.get(key)]);
  }
  if (schema instanceof z.ZodArray && Array.isArray(input)) {
    return input.map((value, i) => [i, schema._zod.def.element, value]);
  }
  if (schema instanceof z.ZodPipe) return [[undefined, schema._zod.def.in, input]];
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return input === undefined || input === null ? [] : [[undefined, schema._zod.def.innerType, input]];
  }
  return [];
}

function throws(schema: z.core.$ZodType, input: unknown): boolean {
  try {
    z.safeParse(schema, input);
    return false;
  } catch (error) {
    // Inside an object zod throws something else for it.
    if (error instanceof z.core.$ZodAsyncError) throw error;
    return true;
  }
}
