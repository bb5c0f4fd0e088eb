/** Checks that a schema is synchronous: inputs are decoded and outputs encoded without waiting. */
import type * as z from "./z.ts";
import { defOf, schemasIn } from "./zod-internals.ts";

export const asynchronousFix =
  "schemas must be synchronous; do it in preprocess or postprocess, which may be asynchronous";

const AsyncFunction = (async () => {}).constructor;

/**
 * A fault for each async refinement or transform. A plain function that returns a promise is only detected when the
 * example is decoded.
 */
export function asynchronousFaults(schema: z.core.$ZodType, field: string): string[] {
  return [...schemasIn(schema, field)].flatMap(([path, each]) => {
    const def = defOf(each);
    if (!Object.values(def).some((value) => value instanceof AsyncFunction)) return [];
    // A refinement is a `custom` schema in another schema's checks.
    const kind = def.type === "custom" ? "refinement" : "transform";
    return [`${path}: has an asynchronous ${kind}; ${asynchronousFix}`];
  });
}
