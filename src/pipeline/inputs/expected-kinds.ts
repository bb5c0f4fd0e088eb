/** Finds the JSON types that a schema accepts in each part of an input. Forms are converted to these types. */

import * as z from "../../author/z.ts";
import { type JsonType, SchemaNode } from "../../base/schemas/json-schema.ts";
import { defOf } from "../../base/schemas/zod-internals.ts";

/** Accepts every value. */
export const anything = SchemaNode.of({});

/** The JSON Schema of a schema's input. Values that the schema converts itself may have any type. */
export function expectedKinds(schema: z.ZodType): SchemaNode {
  return SchemaNode.of(
    z.toJSONSchema(schema, {
      io: "input",
      unrepresentable: "any",
      override: ({ zodSchema, jsonSchema }) => {
        if (convertsOtherKinds(zodSchema))
          for (const key of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, key);
      },
    }),
  );
}

/** Whether a schema accepts values of a JSON type. */
export function takes({ types }: SchemaNode, type: JsonType): boolean {
  return types.size === 0 || types.has(type);
}

/** Whether all strings that the schema accepts are data URIs. Other text in a form field is then parsed as JSON. */
export function hasOnlyDataUrls({ options }: SchemaNode): boolean {
  return options.every((option) => option.takesArrayBytes || !takes(option, "string"));
}

/** Whether a schema converts values of other JSON types: with coercion, `z.preprocess()` or `catch()`. */
function convertsOtherKinds(schema: z.core.$ZodType): boolean {
  const def = defOf(schema);
  const isCoerced = "coerce" in def && def.coerce === true;
  const isPrepared = "in" in def && def.in instanceof z.core.$ZodTransform;
  return isCoerced || isPrepared || def.type === "catch";
}
