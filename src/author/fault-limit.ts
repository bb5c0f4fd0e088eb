/**
 * Stops a schema's validation after a number of faults. Without a limit, zod allocates an object for every fault of a
 * hostile input.
 */
import { withoutLengths } from "./length-issues.ts";
import { type PlainCheck, plainCheck } from "./plain-check.ts";
import * as z from "./z.ts";

/** Number of elements validated at once. At most this many faults can exceed the limit. */
const SLICE = 1024;

/**
 * Makes lists and records in a schema, at any depth, validate in slices and stop after more than `max` faults. Paths,
 * messages and order of the faults stay the same. A stopped schema has failed, whatever its refinements would say.
 */
export function limitFaults(schema: z.core.$ZodType, max: number): void {
  for (const each of schemasOf(schema)) {
    if (limited.has(each)) continue;
    limited.add(each);
    if (each instanceof z.core.$ZodArray) {
      const isPlain = plainCheck(each);
      change(each, (parse) => slicedList(parse, max, { maxLength: longest(each), isPlain }));
    }
    if (each instanceof z.core.$ZodRecord && isOfAnyText(each._zod.def.keyType)) {
      change(each, (parse) => slicedRecord(parse, max));
    }
    if (each instanceof z.core.$ZodObject) change(each, (parse) => withFewKeys(parse, max));
  }
}

/** Schemas that are already limited: several decoders may use one schema. */
const limited = new WeakSet<z.core.$ZodType>();

type Parse = z.core.$ZodType["_zod"]["parse"];
type Payload = z.core.ParsePayload;

function change({ _zod }: z.core.$ZodType, changed: (parse: Parse) => Parse): void {
  // On the first value, zod detects recursion and replaces `parse`. This call triggers that before `parse` is wrapped.
  _zod.parse({ value: undefined, issues: [] }, { async: false });
  const { parse, run } = _zod;
  _zod.parse = changed(parse);
  // If a schema has checks, `run` calls `parse` and then the checks.
  if (run === parse) _zod.run = _zod.parse;
}

/** Maximum length of a list. */
function longest({ _zod }: z.core.$ZodArray): number {
  const sizes = (_zod.def.checks ?? []).map((check) => {
    if (check instanceof z.core.$ZodCheckMaxLength) return check._zod.def.maximum;
    return check instanceof z.core.$ZodCheckLengthEquals ? check._zod.def.length : Number.POSITIVE_INFINITY;
  });
  return Math.min(...sizes, Number.POSITIVE_INFINITY);
}

interface ListRule {
  readonly maxLength: number;
  readonly isPlain: PlainCheck | undefined;
}

function slicedList(parse: Parse, max: number, { maxLength, isPlain }: ListRule): Parse {
  return (payload, context) => {
    const list = payload.value;
    if (!Array.isArray(list) || list.length <= SLICE || context.async) return parse(payload, context);
    // zod allocates an object per element: half a gigabyte for twelve million numbers.
    if (isPlain?.(list)) return payload;
    // For a list that is too long, zod skips the elements.
    if (list.length > maxLength) return parse(payload, context);
    const values = new Array<unknown>(list.length);
    payload.value = values;
    for (let first = 0; first < list.length; first += SLICE) {
      const slice: Payload = { value: list.slice(first, first + SLICE), issues: [] };
      if (parse(slice, context) instanceof Promise) throw new z.core.$ZodAsyncError();
      if (Array.isArray(slice.value)) for (let i = 0; i < slice.value.length; i++) values[first + i] = slice.value[i];
      for (const issue of withoutLengths(slice.issues)) {
        payload.issues.push({ ...issue, path: movedBy(first, issue.path) });
      }
      if (isFull(payload, max)) break;
    }
    return payload;
  };
}

function slicedRecord(parse: Parse, max: number): Parse {
  return (payload, context) => {
    const record = payload.value;
    if (typeof record !== "object" || record === null || Array.isArray(record) || context.async) {
      return parse(payload, context);
    }
    const entries = Object.entries(record);
    if (entries.length <= SLICE) return parse(payload, context);
    const values = {};
    payload.value = values;
    for (let first = 0; first < entries.length; first += SLICE) {
      const slice: Payload = { value: Object.fromEntries(entries.slice(first, first + SLICE)), issues: [] };
      if (parse(slice, context) instanceof Promise) throw new z.core.$ZodAsyncError();
      Object.assign(values, slice.value);
      payload.issues.push(...withoutLengths(slice.issues));
      if (isFull(payload, max)) break;
    }
    return payload;
  };
}

/** Truncates the list of unknown keys, because the message names each of them. */
function withFewKeys(parse: Parse, max: number): Parse {
  return (payload, context) => {
    const parsed = parse(payload, context);
    for (const issue of payload.issues) {
      if (issue.code === "unrecognized_keys" && issue.keys.length > max) issue.keys.length = max + 1;
    }
    return parsed;
  };
}

/**
 * Whether there are more faults than `max`. `continue: false` then skips refinements, which would see incomplete lists.
 */
function isFull({ issues }: Payload, max: number): boolean {
  const last = issues.at(-1);
  if (last === undefined || issues.length <= max) return false;
  issues[issues.length - 1] = { ...last, continue: false };
  return true;
}

function movedBy(first: number, [index, ...rest]: readonly PropertyKey[] = []): PropertyKey[] {
  return [typeof index === "number" ? first + index : (index ?? first), ...rest];
}

function isOfAnyText(schema: z.core.$ZodType): boolean {
  return schema instanceof z.core.$ZodString && !schema._zod.def.checks?.length && !("format" in schema._zod.def);
}

/**
 * Whether zod allocates objects per list element: for elements other than files and plain numbers, strings and
 * booleans.
 */
export function hasCostlyLists(schema: z.core.$ZodType): boolean {
  for (const each of schemasOf(schema)) {
    if (!(each instanceof z.core.$ZodArray)) continue;
    const { element } = each._zod.def;
    const isFile = element instanceof z.core.$ZodCodec;
    if (!isFile && (element instanceof z.core.$ZodObject || plainCheck(element) === undefined)) return true;
  }
  return false;
}

/**
 * Upper bound of the memory that an object's default values add to its JSON text. Measured: 28 bytes for a number, 70
 * for an empty list.
 */
export function defaultBytes(schema: z.core.$ZodType): number {
  let most = 0;
  for (const each of schemasOf(schema)) {
    if (!(each instanceof z.core.$ZodObject)) continue;
    let bytes = 0;
    for (const field of Object.values(each._zod.def.shape)) {
      if (!(field instanceof z.core.$ZodDefault) && !(field instanceof z.core.$ZodPrefault)) continue;
      bytes += 50 + 12 * (JSON.stringify(field._zod.def.defaultValue)?.length ?? 0);
    }
    most = Math.max(most, bytes);
  }
  return most;
}

/** Whether a schema contains itself, and so accepts values of any depth. */
export function isRecursive(schema: z.core.$ZodType): boolean {
  const within = new Set<z.core.$ZodType>();
  const done = new Set<z.core.$ZodType>();
  const leadsBack = (each: z.core.$ZodType): boolean => {
    if (within.has(each)) return true;
    if (done.has(each)) return false;
    within.add(each);
    const found = [...partsOf(each)].some(leadsBack);
    within.delete(each);
    done.add(each);
    return found;
  };
  return leadsBack(schema);
}

/** A schema and all schemas inside it, each once. */
function schemasOf(schema: z.core.$ZodType): Iterable<z.core.$ZodType> {
  const found = new Set([schema]);
  // A Set's iterator also visits elements added during the loop.
  for (const each of found) for (const part of partsOf(each)) found.add(part);
  return found;
}

/** Direct parts of a schema. */
function partsOf(schema: z.core.$ZodType): Set<z.core.$ZodType> {
  const parts = new Set<z.core.$ZodType>();
  collect(schema._zod.def, parts);
  if (schema instanceof z.core.$ZodLazy) collect(schema._zod.innerType, parts);
  return parts;
}

function collect(part: unknown, found: Set<z.core.$ZodType>): void {
  if (part instanceof z.core.$ZodType) found.add(part);
  else if (Array.isArray(part)) for (const element of part) collect(element, found);
  else if (isPlain(part)) for (const value of Object.values(part)) collect(value, found);
}

function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
