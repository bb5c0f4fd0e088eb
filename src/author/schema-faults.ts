/** Faults of a model's schemas: asynchronous parts, and outputs that cannot become JSON. */

import { defOf, lazySchema, schemasIn } from "../base/schemas/zod-internals.ts";
import * as z from "./z.ts";

type Schema = z.core.$ZodType;

export const asynchronousFix =
  "schemas must be synchronous; do it in preprocess or postprocess, which may be asynchronous";

const AsyncFunction = (async () => {}).constructor;

/**
 * A fault for each async refinement or transform of a schema. A plain function that returns a promise is detected only
 * when the example is decoded.
 */
export function asynchronousFaults(schema: Schema, field: string): string[] {
  return [...schemasIn(schema, field)].flatMap(([path, each]) => {
    const def = defOf(each);
    if (!Object.values(def).some((value) => value instanceof AsyncFunction)) return [];
    // A refinement is a `custom` schema among another schema's checks.
    const kind = def.type === "custom" ? "refinement" : "transform";
    return [`${path}: has an asynchronous ${kind}; ${asynchronousFix}`];
  });
}

/**
 * Faults of an output's schema, each with the field and a fix; empty when outputs can be encoded.
 * @param field the declared field, for messages, such as `output` or `part`
 */
export function encodingFaults(schema: Schema, field: string): string[] {
  const oneWay = [...schemasIn(schema, field)].filter(([, each]) =>
    ["transform", "success"].includes(defOf(each).type),
  );
  const faults = oneWay.map(
    ([path]) =>
      `${path}: has a transform, which cannot encode; do it in postprocess, or declare both directions with z.codec`,
  );
  if (!mayBeUndefined(schema, new Set())) return faults;
  const fix = "declare its type, or z.json() for any JSON, or .nullable() if the value may be missing";
  return [...faults, `${field}: may be undefined, which JSON cannot express; ${fix}`];
}

const undefinedTypes: ReadonlySet<string> = new Set(["any", "unknown", "undefined", "void", "optional"]);
/** zod types whose values are encoded by the inner schema alone: a default, for example, applies only to decoding. */
const outerTypes: ReadonlySet<string> = new Set(["nullable", "readonly", "default", "prefault", "catch"]);

/** Whether the encoded value of a schema may be undefined. */
function mayBeUndefined(schema: Schema, seen: Set<Schema>): boolean {
  if (seen.has(schema)) return false;
  seen.add(schema);
  const def = defOf(schema);
  const inner = (each: Schema) => mayBeUndefined(each, seen);
  if (undefinedTypes.has(def.type)) return true;
  if (schema instanceof z.core.$ZodLazy) return inner(lazySchema(schema));
  if (schema instanceof z.core.$ZodUnion) return defOf(schema).options.some(inner);
  if (schema instanceof z.core.$ZodIntersection) return inner(defOf(schema).left) && inner(defOf(schema).right);
  // The schema `in` of a pipe, and so of a codec, describes the JSON value.
  const next = def.type === "pipe" && "in" in def ? def.in : "innerType" in def ? def.innerType : undefined;
  return (def.type === "pipe" || outerTypes.has(def.type)) && next instanceof z.core.$ZodType && inner(next);
}
