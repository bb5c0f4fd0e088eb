/** The JSON Schema (2020-12) of what crosses the wire for a zod schema. */
import { messageOf, SconceError } from "../errors.ts";
import * as z from "./z.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

/** Of a field that goes out as something else than it comes in: how each is described. */
export const wireDescriptions = z.registry<{ readonly input: string; readonly output: string }>();

/**
 * The wire side of `schema`, which for a codec is what it decodes from and encodes to.
 *
 * @param field the declared field: `input`, `output` or `demo.output`
 * @throws SconceError `model_invalid` when the schema has no JSON side or would drop unknown fields silently
 */
export function wireSchema(schema: z.ZodType, field: string): JsonSchema {
  const dropping: string[] = [];
  let json: JsonSchema;
  try {
    json = z.toJSONSchema(schema, {
      io: "input",
      override: ({ zodSchema, jsonSchema, path }) => {
        const descriptions = field === "input" ? undefined : wireDescriptions.get(zodSchema);
        // The author may have written another.
        if (descriptions && jsonSchema.description === descriptions.input) jsonSchema.description = descriptions.output;
        const { def } = zodSchema._zod;
        if (def.type === "object" && !("catchall" in def && def.catchall)) dropping.push(pathName(field, path));
      },
    });
  } catch (error) {
    throw new SconceError("model_invalid", `${field}: cannot be described as JSON (${messageOf(error)})`, {
      cause: error,
    });
  }
  if (dropping.length > 0) {
    throw new SconceError(
      "model_invalid",
      `${[...new Set(dropping)].join(", ")}: drops unknown fields silently; import z from "sconce", whose z.object refuses them, or use z.looseObject`,
    );
  }
  const { $schema: _, "~standard": __, ...rest } = json;
  return rest;
}

/** `input.meta.crop` for the path of a nested schema in its JSON Schema (`properties`, `meta`, `properties`, `crop`). */
function pathName(field: string, path: readonly (string | number)[]): string {
  return [field, ...path.filter((part, i) => !(part === "properties" && i % 2 === 0))].join(".");
}
