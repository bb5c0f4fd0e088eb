/**
 * A fast validator for plain objects, lists, numbers and strings, because zod makes several calls for each element of a
 * list. If the fast check fails, zod runs and explains the fault.
 */

import * as z from "zod";
import { isObject } from "../json.ts";
import { defOf } from "./zod-internals.ts";

export type PlainCheck = (value: unknown) => boolean;

/**
 * Compiles a fast check for a schema.
 * @returns a check that is true only for JSON values that `schema` accepts and returns unchanged; undefined when the
 * schema may change a value or has unsupported checks
 */
export function plainCheck(schema: z.core.$ZodType): PlainCheck | undefined {
  return compile(schema, []);
}

/** A recursive schema gets no fast check: compiling it would never end. */
function compile(schema: z.core.$ZodType, enclosing: readonly z.core.$ZodType[]): PlainCheck | undefined {
  if (enclosing.includes(schema)) return undefined;
  const outer = [...enclosing, schema];
  if (schema instanceof z.ZodNumber) return numberCheck(schema);
  if (schema instanceof z.ZodArray) return arrayCheck(schema, outer);
  if (schema instanceof z.ZodObject) return objectCheck(schema, outer);
  if (schema instanceof z.ZodString) return stringCheck(schema);
  if (schema instanceof z.ZodBoolean) {
    return hasMore(schema) ? undefined : (value) => typeof value === "boolean";
  }
  if (schema instanceof z.ZodNullable) {
    const inner = hasMore(schema) ? undefined : compile(defOf(schema).innerType, outer);
    return inner && ((value) => value === null || inner(value));
  }
  return undefined;
}

const isFiniteNumber: PlainCheck = (value) => typeof value === "number" && Number.isFinite(value);

function numberCheck(schema: z.ZodNumber): PlainCheck | undefined {
  if (!hasMore(schema)) return isFiniteNumber;
  const def = defOf(schema);
  if ("coerce" in def && def.coerce === true) return undefined;
  let isWhole = false;
  let [least, most, above, below] = [-Infinity, Infinity, -Infinity, Infinity];
  for (const check of [schema, ...(def.checks ?? [])]) {
    if (check instanceof z.core.$ZodCheckNumberFormat) {
      const { format } = defOf(check);
      const [from, to] = z.core.util.NUMBER_FORMAT_RANGES[format];
      isWhole ||= format.includes("int");
      [least, most] = [Math.max(least, from), Math.min(most, to)];
    } else if (check instanceof z.core.$ZodCheckGreaterThan || check instanceof z.core.$ZodCheckLessThan) {
      const { value, inclusive } = defOf(check);
      if (typeof value !== "number") return undefined;
      if (check instanceof z.core.$ZodCheckGreaterThan) {
        if (inclusive) least = Math.max(least, value);
        else above = Math.max(above, value);
      } else if (inclusive) most = Math.min(most, value);
      else below = Math.min(below, value);
    } else if (check !== schema) return undefined;
  }
  const isNumber = isWhole ? Number.isSafeInteger : Number.isFinite;
  return (value) =>
    typeof value === "number" && isNumber(value) && value >= least && value <= most && value > above && value < below;
}

function stringCheck(schema: z.ZodString): PlainCheck | undefined {
  const bounds = boundsOf(schema);
  if (bounds === undefined || isSpecial(schema)) return undefined;
  const { min, max } = bounds;
  return (value) => typeof value === "string" && hasCharacters(value, min) && value.length <= max;
}

/**
 * Whether a text has at least `min` code points, as zod and JSON Schema count. A code point takes one or two of
 * JavaScript's code units.
 */
function hasCharacters(text: string, min: number): boolean {
  return text.length >= min && (text.length >= 2 * min || z.core.util.codePointLength(text) >= min);
}

function arrayCheck(schema: z.ZodArray, outer: readonly z.core.$ZodType[]): PlainCheck | undefined {
  const bounds = boundsOf(schema);
  const element = compile(defOf(schema).element, outer);
  if (bounds === undefined || element === undefined) return undefined;
  const { min, max } = bounds;
  const fits = (value: unknown): value is unknown[] =>
    Array.isArray(value) && value.length >= min && value.length <= max;
  // The loop for numbers needs no function call per element.
  return element === isFiniteNumber
    ? (value) => fits(value) && areNumbers(value)
    : (value) => fits(value) && value.every((one) => element(one));
}

function areNumbers(values: readonly unknown[]): boolean {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    // x * 0 is nonzero only for NaN and infinities.
    if (typeof value !== "number" || value * 0 !== 0) return false;
  }
  return true;
}

function objectCheck(schema: z.ZodObject, outer: readonly z.core.$ZodType[]): PlainCheck | undefined {
  const { shape, catchall } = defOf(schema);
  if (hasMore(schema) || !(catchall instanceof z.ZodNever)) return undefined;
  const fields: Field[] = [];
  const names = new Set<string>();
  for (const [key, field] of Object.entries(shape)) {
    const isOptional = field instanceof z.ZodOptional;
    const check = compile(isOptional ? defOf(field).innerType : field, outer);
    if (check === undefined || (isOptional && hasMore(field))) return undefined;
    fields.push({ key, check, isOptional });
    names.add(key);
  }
  return (value) => isObject(value) && hasNoOther(value, names) && fitAll(fields, value);
}

interface Field {
  readonly key: string;
  readonly check: PlainCheck;
  readonly isOptional: boolean;
}

function hasNoOther(value: Readonly<Record<string, unknown>>, names: ReadonlySet<string>): boolean {
  // Unlike `Object.keys`, `for in` allocates no list. It also yields inherited properties, which are refused.
  for (const key in value) if (!names.has(key)) return false;
  return true;
}

function fitAll(fields: readonly Field[], value: Readonly<Record<string, unknown>>): boolean {
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i];
    if (field !== undefined && !fits(field, value)) return false;
  }
  return true;
}

function fits({ key, check, isOptional }: Field, value: Readonly<Record<string, unknown>>): boolean {
  return Object.hasOwn(value, key) ? check(value[key]) : isOptional;
}

/** Minimum and maximum length; undefined if the schema has checks of other kinds. */
function boundsOf(schema: z.ZodString | z.ZodArray): { min: number; max: number } | undefined {
  const { checks = [] } = defOf(schema);
  let [min, max] = [0, Number.POSITIVE_INFINITY];
  for (const check of checks) {
    if (check instanceof z.core.$ZodCheckMinLength) min = Math.max(min, defOf(check).minimum);
    else if (check instanceof z.core.$ZodCheckMaxLength) max = Math.min(max, defOf(check).maximum);
    else if (check instanceof z.core.$ZodCheckLengthEquals) {
      [min, max] = [Math.max(min, defOf(check).length), Math.min(max, defOf(check).length)];
    } else return undefined;
  }
  return { min, max };
}

function hasMore(schema: z.ZodType): boolean {
  return (defOf(schema).checks?.length ?? 0) > 0 || isSpecial(schema);
}

/** Whether the schema is coerced, or has a format such as z.int() or z.email(). */
function isSpecial(schema: z.ZodType): boolean {
  const def = defOf(schema);
  return ("coerce" in def && def.coerce === true) || ("format" in def && def.format !== undefined);
}
