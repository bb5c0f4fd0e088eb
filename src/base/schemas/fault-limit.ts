/**
 * Limits the faults that zod reports for a value, because zod allocates an object for each fault.
 */

import * as z from "zod";
import { type PlainCheck, plainCheck } from "./plain-check.ts";
import { defOf, type Parse, partsOf, replaceParse, schemasIn } from "./zod-internals.ts";
import { withoutLengths } from "./zod-issues.ts";

/** Elements of a list or record that are validated before the number of faults is checked again. */
const SLICE = 1024;

/**
 * Makes lists and records in a schema, at any depth, validate in slices and stop after more than `max` faults. Paths,
 * messages and order of the faults stay the same, but a fault about unknown keys names at most `max` + 1. A stopped
 * validation counts as failed.
 */
export function limitFaults(schema: z.core.$ZodType, max: number): void {
  for (const [, each] of schemasIn(schema)) {
    if (limited.has(each)) continue;
    limited.add(each);
    if (each instanceof z.core.$ZodArray) {
      const isPlain = plainCheck(each);
      replaceParse(each, (parse) => slicedList(parse, max, { maxLength: maxLengthOf(each), isPlain }));
    }
    if (each instanceof z.core.$ZodRecord && isOfAnyText(defOf(each).keyType)) {
      replaceParse(each, (parse) => slicedRecord(parse, max));
    }
    if (each instanceof z.core.$ZodObject) replaceParse(each, (parse) => withFewKeys(parse, max));
  }
}

/**
 * Schemas whose faults are limited already. Decoders may share a schema, and its `parse` must be replaced only once.
 */
const limited = new WeakSet<z.core.$ZodType>();

type Payload = z.core.ParsePayload;

/** Maximum length of a list; infinite without a declared limit. */
function maxLengthOf(list: z.core.$ZodArray): number {
  const sizes = (defOf(list).checks ?? []).map((check) => {
    if (check instanceof z.core.$ZodCheckMaxLength) return defOf(check).maximum;
    return check instanceof z.core.$ZodCheckLengthEquals ? defOf(check).length : Number.POSITIVE_INFINITY;
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
    // A list of plain numbers, strings or booleans needs no zod, which would allocate half a gigabyte for twelve
    // million numbers.
    if (isPlain?.(list)) return payload;
    // zod reports the length of an overlong list, without a look at its elements.
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

/** Shortens the list of unknown keys in a fault, because the message names each key. */
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
 * Whether there are more faults than `max`. Then sets `continue: false` on the last fault, so that zod skips
 * refinements, which would see incomplete lists.
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
  return schema instanceof z.core.$ZodString && !defOf(schema).checks?.length && !("format" in defOf(schema));
}

/** Whether a schema contains itself, and so accepts values nested to any depth. */
export function isRecursive(schema: z.core.$ZodType): boolean {
  const within = new Set<z.core.$ZodType>();
  const done = new Set<z.core.$ZodType>();
  const leadsBack = (each: z.core.$ZodType): boolean => {
    if (within.has(each)) return true;
    if (done.has(each)) return false;
    within.add(each);
    const found = partsOf(each).some(([, part]) => leadsBack(part));
    within.delete(each);
    done.add(each);
    return found;
  };
  return leadsBack(schema);
}
