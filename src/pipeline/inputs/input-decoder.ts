/** Decodes JSON into inputs, and validates them by the model's schema. Its error lists every fault, up to `MAX_FAULTS`. */

import { InputError } from "../../author/input-error.ts";
import * as z from "../../author/z.ts";
import { messageWithLine } from "../../base/author-line.ts";
import { codedError, type Fault, MODEL_FAILED, oneLine, SconceError } from "../../base/errors.ts";
import { pointerTo } from "../../base/json.ts";
import { isTooDeep } from "../../base/json-text.ts";
import { log } from "../../base/log.ts";
import { logLimit } from "../../base/log-limit.ts";
import { isRecursive, limitFaults } from "../../base/schemas/fault-limit.ts";
import type { SchemaNode } from "../../base/schemas/json-schema.ts";
import { type PlainCheck, plainCheck } from "../../base/schemas/plain-check.ts";
import { withoutUnions } from "../../base/schemas/zod-issues.ts";
import { expectedKinds } from "./expected-kinds.ts";

/** Maximum faults in one error, so that a small request cannot cause a large answer. */
export const MAX_FAULTS = 1000;

/** Inputs that do not come from JSON, but from a binary protocol. */
export interface InputValues {
  readonly count: number;
  /** Creates the inputs as JSON values. An array may be a `Tensor` in the memory of the request. */
  readonly values: () => unknown[];
}

export class InputDecoder {
  readonly #input: z.ZodType;
  readonly #isPlain: PlainCheck | undefined;
  readonly #isRecursive: boolean;
  #expected: SchemaNode | undefined;

  /**
   * Prepares the validation.
   * @param input the schema of one input. The constructor changes it to stop after `MAX_FAULTS` faults.
   */
  constructor(input: z.ZodType) {
    limitFaults(input, MAX_FAULTS);
    this.#isRecursive = isRecursive(input);
    this.#input = input;
    this.#isPlain = plainCheck(input);
  }

  get expected(): SchemaNode {
    this.#expected ??= expectedKinds(this.#input);
    return this.#expected;
  }

  /**
   * Decodes a whole body.
   * @throws SconceError `body_invalid` or `inputs_invalid`
   */
  body(body: string, maxInputs: number): unknown[] {
    if (body === "") throw bodyInvalid("expected a JSON list of inputs, received an empty body");
    return this.#whole(requireList(parseJson(body), maxInputs));
  }

  /** Validates inputs of a binary protocol. @throws SconceError `inputs_invalid` */
  values({ count, values }: InputValues, maxInputs: number): unknown[] {
    refuseTooMany(count, maxInputs);
    return this.#whole(values());
  }

  #whole(list: unknown[]): unknown[] {
    if (this.#areAllPlain(list)) return list;
    const faults = new Faults();
    const inputs = this.list(list, 0, faults);
    faults.throwIfAny();
    return inputs;
  }

  /** Whether all inputs pass a fast check that suffices for simple schemas. Nearly all bodies pass it. */
  #areAllPlain(list: readonly unknown[]): boolean {
    if (this.#isPlain === undefined) return false;
    for (let i = 0; i < list.length; i++) if (!this.#isPlain(list[i])) return false;
    return true;
  }

  /**
   * Decodes some elements of a body, until there are `MAX_FAULTS` faults.
   * @param first index in the body of the first element
   */
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
      // The schema accepts this value, but JSON.stringify() or `preprocess` would overflow the stack.
      if (isDeep && parsed.success) throw tooDeep();
      if (parsed.success) inputs.push(parsed.data);
      else faults.add(parsed.error.issues, first + i);
    }
    return inputs;
  }

  /** Validates one input. @throws SconceError `inputs_invalid` if the schema's recursion overflows the stack */
  #parse(input: unknown) {
    try {
      return this.#input.safeParse(input);
    } catch (error) {
      if (isStackOverflow(error)) throw tooDeep();
      return { success: false, error: { issues: [thrownIssue(this.#input, input, error)] } } as const;
    }
  }
}

export class Faults {
  readonly #faults: Fault[] = [];

  /** Whether decoding stops because there are enough faults. Describing a fault costs far more than accepting an input. */
  get isFull(): boolean {
    return this.#faults.length > MAX_FAULTS;
  }

  /** Adds a fault for each zod issue of an input, and for each unknown field. For a union, adds the faults of the option that fits best. */
  add(issues: readonly z.core.$ZodIssue[], index: number): void {
    for (const issue of withoutUnions(issues)) {
      const path = [index, ...issue.path];
      if (issue.code === "unrecognized_keys") {
        for (const key of issue.keys.slice(0, MAX_FAULTS + 1))
          this.#faults.push({ pointer: pointerTo([...path, key]), detail: "is not a field of this input" });
      } else this.#faults.push({ pointer: pointerTo(path), detail: describeIssue(issue.message) });
    }
  }

  /** @throws SconceError `inputs_invalid` if there are faults */
  throwIfAny(): void {
    if (this.#faults.length > 0) throw inputsInvalid(this.#faults);
  }
}

/** Refuses a body that is no list, or a list with too few or too many inputs, before any input is validated. */
function requireList(body: unknown, maxInputs: number): unknown[] {
  if (!Array.isArray(body)) throw notAList(typeName(body));
  if (body.length === 0)
    throw inputsInvalid([{ pointer: "", detail: "expected at least one input, received an empty list" }]);
  refuseTooMany(body.length, maxInputs);
  return body;
}

export function notAList(received: string): SconceError {
  return inputsInvalid([
    { pointer: "", detail: `expected a list of inputs, received ${received}; put a single input in [ ]` },
  ]);
}

/** Checks the number of inputs in a request. @throws SconceError `inputs_invalid` if there are more than `maxInputs` */
export function refuseTooMany(count: number, maxInputs: number): void {
  if (count <= maxInputs) return;
  throw inputsInvalid([
    {
      pointer: "",
      detail: `expected at most ${maxInputs} inputs, received ${count}; send them in several requests`,
    },
  ]);
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Decodes UTF-8 and removes a byte order mark.
 * @throws SconceError `body_invalid`
 */
export function utf8(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes);
  } catch (error) {
    throw bodyInvalid("the body is not JSON: it is not UTF-8", error);
  }
}

export function bodyInvalid(message: string, cause?: unknown): SconceError {
  return new SconceError("body_invalid", message, { cause });
}

/** Parses the text of a body. @throws SconceError `body_invalid` */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw bodyInvalid(`the body is not JSON: ${parseFault(error)}`, error);
  }
}

function parseFault(error: unknown): string {
  if (error instanceof RangeError) return "it is nested too deeply";
  return error instanceof Error ? error.message.replace(/^JSON Parse error: /, "") : "it cannot be parsed";
}

export function inputsInvalid(faults: readonly Fault[]): SconceError {
  const shown = faults.slice(0, MAX_FAULTS);
  const [first] = shown;
  const count = faults.length > MAX_FAULTS ? `more than ${MAX_FAULTS} faults` : `${faults.length} faults`;
  const firstFault = first === undefined ? "" : `${first.pointer === "" ? "" : `${first.pointer}: `}${first.detail}`;
  const message = faults.length === 1 ? firstFault : `${count}, the first: ${firstFault}`;
  return new SconceError("inputs_invalid", message, { faults: shown });
}

function isStackOverflow(error: unknown): boolean {
  return error instanceof RangeError && error.message.startsWith("Maximum call stack");
}

/** @throws SconceError `inputs_invalid` for an input that is nested too deeply */
export function checkDepth(input: unknown): void {
  if (isTooDeep(input)) throw tooDeep();
}

function tooDeep(): SconceError {
  return inputsInvalid([{ pointer: "", detail: "an input is nested too deeply" }]);
}

/** Shortens a message of zod to the form of this server's messages: "expected …, received …". */
function describeIssue(message: string): string {
  return message.replace(/^Invalid input: /, "").replace(/received undefined$/, "but it is missing");
}

function typeName(value: unknown): string {
  if (value === null) return "null";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/**
 * Creates a zod issue for an error that the author's code in the schema threw. The issue names the whole input, or the
 * field of an `InputError`: zod does not report which value made the code throw.
 * @throws an error of zod for an asynchronous schema, since the input is not at fault
 */
function thrownIssue(schema: z.ZodType, input: unknown, error: unknown): z.core.$ZodIssue {
  checkSynchronous(schema, input);
  if (error instanceof InputError) {
    return { code: "custom", path: [error.field ?? []].flat(), message: error.message, input };
  }
  logLimit.write("schema", (...more) =>
    log.warn(`The input schema failed: ${oneLine(messageWithLine(codedError(error)), 1000)}`, ...more),
  );
  return { code: "custom", path: [], message: `${MODEL_FAILED} to read this value`, input };
}

/** Throws for an asynchronous schema. Validates without code that zod compiles, which throws another error there. */
function checkSynchronous(schema: z.ZodType, input: unknown): void {
  try {
    schema.safeParse(input, { jitless: true });
  } catch (error) {
    if (error instanceof z.core.$ZodAsyncError) throw error;
  }
}
