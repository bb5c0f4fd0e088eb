/** Walks a zod schema with the field path of each part. */
import * as z from "./z.ts";

type Schema = z.core.$ZodType;

/** The schema and all schemas inside it, each once. */
export function* schemasIn(
  schema: Schema,
  path: string,
  seen = new Set<Schema>(),
): Generator<readonly [path: string, schema: Schema]> {
  if (seen.has(schema)) return;
  seen.add(schema);
  yield [path, schema];
  if (schema instanceof z.core.$ZodLazy) yield* schemasIn(schema._zod.def.getter(), path, seen);
  for (const part of Object.values(schema._zod.def)) {
    for (const [name, inner] of innerSchemas(part)) yield* schemasIn(inner, name ? `${path}.${name}` : path, seen);
  }
}

/** Schemas in a definition's entry: a schema, a list of schemas, or the fields of an object. */
function innerSchemas(part: unknown): (readonly [name: string | undefined, schema: Schema])[] {
  if (part instanceof z.core.$ZodType) return [[undefined, part]];
  if (typeof part !== "object" || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) =>
    value instanceof z.core.$ZodType ? [[Array.isArray(part) ? undefined : key, value] as const] : [],
  );
}
