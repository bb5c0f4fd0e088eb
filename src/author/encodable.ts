/** Checks that an output's schema can encode: values from model code must become JSON that matches the schema. */
import { schemasIn } from "./schema-walk.ts";
import * as z from "./z.ts";

type Schema = z.core.$ZodType;

/**
 * Faults of an output's schema, each with the field and a fix; empty when it can encode.
 * @param field the declared field, for messages: `output` or `demo.output`
 */
export function encodingFaults(schema: Schema, field: string): string[] {
  const oneWay = [...schemasIn(schema, field)].filter(([, { _zod }]) =>
    ["transform", "success"].includes(_zod.def.type),
  );
  const faults = oneWay.map(
    ([path]) =>
      `${path}: has a transform, which cannot be turned back into what crosses the wire; do it in postprocess, or declare both ways with z.codec`,
  );
  if (!mayBeNothing(schema, new Set())) return faults;
  const fix = "declare what it is, or z.json() for any JSON, or .nullable() where there may be no value";
  return [...faults, `${field}: may be undefined, which JSON has no word for; ${fix}`];
}

const undefinedTypes: ReadonlySet<string> = new Set(["any", "unknown", "undefined", "void", "optional"]);
/** Types that encode to the result of their inner schema. Defaults apply only to decoding. */
const outerTypes: ReadonlySet<string> = new Set(["nullable", "readonly", "default", "prefault", "catch"]);

/** Whether an encoded value may be undefined. */
function mayBeNothing(schema: Schema, seen: Set<Schema>): boolean {
  if (seen.has(schema)) return false;
  seen.add(schema);
  const { def } = schema._zod;
  const inner = (each: Schema) => mayBeNothing(each, seen);
  if (undefinedTypes.has(def.type)) return true;
  if (schema instanceof z.core.$ZodLazy) return inner(schema._zod.def.getter());
  if (schema instanceof z.core.$ZodUnion) return schema._zod.def.options.some(inner);
  if (schema instanceof z.core.$ZodIntersection) return inner(schema._zod.def.left) && inner(schema._zod.def.right);
  // In a pipe, and so in a codec, `in` is the JSON side.
  const next = def.type === "pipe" && "in" in def ? def.in : "innerType" in def ? def.innerType : undefined;
  return (def.type === "pipe" || outerTypes.has(def.type)) && next instanceof z.core.$ZodType && inner(next);
}
