/** Checks the options of calls in a model's code. A misspelled name or value would silently give other results. */
import * as z from "zod";
import { closest } from "../base/closest.ts";
import { type ErrorCode, SconceError } from "../base/errors.ts";

/** Longest part of a wrong value in a message, in characters or elements. */
const MAX_SHOWN = 40;

/** A schema of options, whose error messages end sentences such as `width is 0; …`. */
export function optionsOf<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, "give an object of options");
}

/** One of a few values. */
export function oneOf<const T extends string | number>(values: readonly T[]) {
  return z.literal(values).optional();
}

/** An option that the call itself checks. */
export const anything = z.unknown().optional();
const wholeFault = "give a whole number of at least 1";
export const wholeNumber = z.int(wholeFault).min(1, wholeFault).optional();
export const positiveNumber = z.number("give a number").positive("give a number above 0").optional();

/**
 * Checks the options of a call.
 * @param call name of the call in messages, e.g. `pixels()`
 * @throws SconceError with this code, for an unknown option or a wrong value; names the nearest right one
 */
export function checkOptions(call: string, options: z.ZodObject, given: unknown, code: ErrorCode): void {
  const parsed = options.safeParse(given, { reportInput: true });
  if (parsed.success) return;
  const faults = parsed.error.issues.flatMap((issue) => faultsOf(issue, options));
  throw new SconceError(code, `${call}: ${faults.join("; ")}`);
}

function faultsOf(issue: z.core.$ZodIssue, options: z.ZodObject): string[] {
  const path = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      return `there is no option ${[...issue.path, key].join(".")}; ${keyFix(key, issue.path, options)}`;
    });
  }
  const fix = issue.code === "invalid_value" ? valueFix(issue.input, issue.values) : issue.message;
  return [`${path === "" ? "the argument" : path} is ${shown(issue.input)}; ${fix}`];
}

/** The name that is nearest to an unknown one. @param schema schema of the object that `path` begins at */
export function keyFix(key: string, path: readonly PropertyKey[], schema: z.ZodType): string {
  const known = keysAt(schema, path);
  const near = closest(key, known);
  return near === undefined ? `known are ${known.join(", ")}` : `did you mean ${[...path, near].join(".")}?`;
}

/** Names of the fields of the object at this path. */
function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const inner = schema instanceof z.ZodOptional ? schema.unwrap() : schema;
  const [key, ...rest] = path;
  if (inner instanceof z.ZodRecord && inner.valueType instanceof z.ZodType) return keysAt(inner.valueType, rest);
  if (!(inner instanceof z.ZodObject)) return [];
  if (key === undefined) return Object.keys(inner.shape);
  const field: unknown = inner.shape[String(key)];
  return field instanceof z.ZodType ? keysAt(field, rest) : [];
}

/** The right values, the nearest first. */
export function valueFix(given: unknown, values: readonly unknown[]): string {
  const near = closest(String(given).toLowerCase(), values.map(String));
  const list = values.map((value) => JSON.stringify(value)).join(", ");
  return near === undefined ? `give one of ${list}` : `did you mean ${JSON.stringify(near)}? Give one of ${list}`;
}

/** A wrong value as a short text. */
export function shown(value: unknown): string {
  if (ArrayBuffer.isView(value)) return `a ${value.constructor.name}`;
  if (Array.isArray(value) && value.length > MAX_SHOWN) return `a list of ${value.length}`;
  const isJson = typeof value === "string" || (typeof value === "object" && value !== null);
  const text = isJson ? JSON.stringify(value) : String(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}
