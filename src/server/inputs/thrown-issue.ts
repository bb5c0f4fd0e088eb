/** An error that the author's own code in a schema (a transform, a refinement) threw for a client's data, as an issue like zod's own. */

import * as z from "../../author/z.ts";
import { messageOf } from "../../base/errors.ts";

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
