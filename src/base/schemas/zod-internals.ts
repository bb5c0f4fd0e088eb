/** Reads and replaces internals of zod 4.6.7. Other files use zod's public interface only. */

import * as z from "zod";
import type { JsonSchema } from "./json-schema.ts";

type Schema = z.core.$ZodType;

export function defOf<S extends { readonly _zod: { readonly def: unknown } }>(schema: S): S["_zod"]["def"] {
  return schema._zod.def;
}

/**
 * The schema that the getter of a `z.lazy` returns. zod calls the getter once, since each call may create a new schema.
 */
export function lazySchema(schema: z.core.$ZodLazy): Schema {
  return schema._zod.innerType;
}

/** Yields the schema and all schemas inside it, each once, with the path of its field. */
export function* schemasIn(
  schema: Schema,
  path = "",
  seen = new Set<Schema>(),
): Generator<readonly [path: string, schema: Schema]> {
  if (seen.has(schema)) return;
  seen.add(schema);
  yield [path, schema];
  for (const [name, part] of partsOf(schema)) yield* schemasIn(part, name ? `${path}.${name}` : path, seen);
}

/** Schemas directly inside a schema; fields of an object with their names. */
export function partsOf(schema: Schema): (readonly [name: string | undefined, schema: Schema])[] {
  const parts = Object.values(defOf(schema)).flatMap(schemasOf);
  return schema instanceof z.core.$ZodLazy ? [[undefined, lazySchema(schema)], ...parts] : parts;
}

/** Schemas in one property of a definition, which may be a schema, a list, or the fields of an object. */
function schemasOf(entry: unknown): (readonly [name: string | undefined, schema: Schema])[] {
  if (entry instanceof z.core.$ZodType) return [[undefined, entry]];
  if (typeof entry !== "object" || entry === null) return [];
  return Object.entries(entry).flatMap(([key, value]) =>
    value instanceof z.core.$ZodType ? [[Array.isArray(entry) ? undefined : key, value] as const] : [],
  );
}

export type Parse = Schema["_zod"]["parse"];

/** Replaces the function that validates values of a schema. */
export function replaceParse({ _zod }: Schema, replacement: (parse: Parse) => Parse): void {
  // At the first value, zod detects recursion and replaces `parse`. A call with `undefined` triggers this before
  // `parse` is wrapped.
  _zod.parse({ value: undefined, issues: [] }, { async: false });
  const { parse, run } = _zod;
  _zod.parse = replacement(parse);
  // Without checks, `run` is `parse` itself. With checks, `run` calls `_zod.parse` and then the checks.
  if (run === parse) _zod.run = _zod.parse;
}

export function replaceJsonSchema({ _zod }: Schema, json: JsonSchema): void {
  _zod.toJSONSchema = () => json;
}
