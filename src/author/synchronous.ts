/** Checks that a schema is synchronous: inputs are decoded and outputs encoded without waiting. */
import { schemasIn } from "./schema-walk.ts";
import type * as z from "./z.ts";

export const asynchronousFix = "zod is not waited for here; do it in preprocess or postprocess, which may wait";

const AsyncFunction = (async () => {}).constructor;

/**
 * A fault for each async refinement or transform. A plain function that returns a promise is only detected when the
 * example is decoded.
 */
export function asynchronousFaults(schema: z.core.$ZodType, field: string): string[] {
  return [...schemasIn(schema, field)].flatMap(([path, { _zod }]) => {
    if (!Object.values(_zod.def).some((value) => value instanceof AsyncFunction)) return [];
    // A refinement is a `custom` schema in another schema's checks.
    const kind = _zod.def.type === "custom" ? "refinement" : "transform";
    return [`${path}: has an asynchronous ${kind}; ${asynchronousFix}`];
  });
}
