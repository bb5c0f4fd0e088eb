/** Makes a schema stop at the first so many faults: zod makes an object for every fault before anybody can count them. */
import { withoutLengths } from "./length-issues.ts";
import { type PlainCheck, plainCheck } from "./plain-check.ts";
import * as z from "./z.ts";

/** Elements that are checked together: so many faults beyond the limit there can be. */
const SLICE = 1024;

/**
 * Changes the lists and records of a schema, at any depth, so that they are checked a slice at a time, and no further once there are more
 * faults than `max`. Faults have the places, words and order that they have without it; a schema that stopped has failed, whatever its
 * refinements would say.
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

/** A model's schema may be read by several decoders. */
const limited = new WeakSet<z.core.$ZodType>();

type Parse = z.core.$ZodType["_zod"]["parse"];
type Payload = z.core.ParsePayload;

function change({ _zod }: z.core.$ZodType, changed: (parse: Parse) => Parse): void {
  // At its first value a schema finds out whether it leads back to itself, and sets `parse` anew: it would take away what is put around it.
  _zod.parse({ value: undefined, issues: [] }, { async: false });
  const { parse, run } = _zod;
  _zod.parse = changed(parse);
  // Where a schema has checks, `run` calls `parse` and then those.
  if (run === parse) _zod.run = _zod.parse;
}

/** How many elements a list may have. */
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
    // zod makes an object for each element: of twelve million numbers half a gigabyte of garbage.
    if (isPlain?.(list)) return payload;
    // Of a list that is too long zod looks at no element.
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

/** Of the keys that an object does not know, no more are told: a message names each. */
function withFewKeys(parse: Parse, max: number): Parse {
  return (payload, context) => {
    const parsed = parse(payload, context);
    for (const issue of payload.issues) {
      if (issue.code === "unrecognized_keys" && issue.keys.length > max) issue.keys.length = max + 1;
    }
    return parsed;
  };
}

/** Whether there are more faults than `max`; then refinements are not asked, whose lists would have holes. */
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

/** Whether zod makes objects for the elements of a list within: of those that are neither files nor plain numbers, texts and booleans. */
export function hasCostlyLists(schema: z.core.$ZodType): boolean {
  for (const each of schemasOf(schema)) {
    if (!(each instanceof z.core.$ZodArray)) continue;
    const { element } = each._zod.def;
    const isFile = element instanceof z.core.$ZodCodec;
    if (!isFile && (element instanceof z.core.$ZodObject || plainCheck(element) === undefined)) return true;
  }
  return false;
}

/** What the defaults of an object within may take, which its text does not have; measured 28 bytes for a number, 70 for an empty list. */
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

/** Whether a schema is part of itself, so that it follows values to any depth. */
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

/** A schema and all that it is made of, each once. */
function schemasOf(schema: z.core.$ZodType): Iterable<z.core.$ZodType> {
  const found = new Set([schema]);
  // What is added meanwhile has its turn too.
  for (const each of found) for (const part of partsOf(each)) found.add(part);
  return found;
}

/** What a schema is directly made of. */
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
