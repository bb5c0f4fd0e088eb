/**
 * Generates JSON Schemas (2020-12) of zod schemas, as clients see them: for a codec, of the JSON value before decoding.
 */
import { messageOf, SconceError } from "../base/errors.ts";
import type { JsonSchema } from "../base/schemas/json-schema.ts";
import { defOf } from "../base/schemas/zod-internals.ts";
import * as z from "./z.ts";

/** Default descriptions of a file field: one for JSON Schemas of inputs, one for JSON Schemas of outputs. */
export const wireDescriptions = z.registry<{ readonly input: string; readonly output: string }>();

/**
 * The JSON Schema of the values in requests and responses. For a codec, it describes the JSON value before decoding.
 * @param field the declared field, such as `demo.output`; all but `input` get the descriptions of outputs
 * @throws SconceError `model_invalid` when the schema has no JSON Schema or drops unknown fields silently
 */
export function wireSchema(schema: z.ZodType, field: string): JsonSchema {
  const dropping: string[] = [];
  const without: string[] = [];
  const describe = (unrepresentable: "throw" | "any"): JsonSchema =>
    z.toJSONSchema(schema, {
      io: "input",
      unrepresentable,
      override: ({ zodSchema, jsonSchema, path }) => {
        const descriptions = field === "input" ? undefined : wireDescriptions.get(zodSchema);
        // Outputs get another default description; an author's own description stays.
        if (descriptions && jsonSchema.description === descriptions.input) jsonSchema.description = descriptions.output;
        const def = defOf(zodSchema);
        if (def.type === "object" && !("catchall" in def && def.catchall)) dropping.push(pathName(field, path));
        const fix = noJson.get(def.type);
        if (fix !== undefined) without.push(`${pathName(field, path)}: ${fix}`);
      },
    });
  let json: JsonSchema = {};
  try {
    json = describe("throw");
  } catch (error) {
    // With `any`, the second run throws no error and collects all faulty fields.
    describe("any");
    if (without.length === 0) without.push(`${field}: cannot be described as JSON (${messageOf(error)})`);
  }
  if (without.length > 0) throw new SconceError("model_invalid", [...new Set(without)].join("; "));
  if (dropping.length > 0) {
    throw new SconceError(
      "model_invalid",
      `${[...new Set(dropping)].join(", ")}: drops unknown fields silently; import z from "sconce", whose z.object refuses them, or use z.looseObject`,
    );
  }
  const { $schema: _, "~standard": __, ...rest } = json;
  return rest;
}

/** zod types that have no JSON form, and a fix for each. */
const noJson: ReadonlyMap<string, string> = new Map([
  [
    "date",
    "JSON has no dates; write z.codec(z.iso.datetime(), z.date(), { decode: (text) => new Date(text), encode: (date) => date.toISOString() })",
  ],
  [
    "bigint",
    "JSON has no bigint; write z.int(), or z.codec(z.string().regex(/^-?\\d+$/), z.bigint(), { decode: BigInt, encode: String })",
  ],
  ["file", 'z.file() does not cross the wire; write file() from "sconce"'],
  ["map", "JSON has no Map; write z.record(), or z.codec() from a list"],
  ["set", "JSON has no Set; write z.array(), or z.codec() from a list"],
  ["promise", "JSON has no promises; write what it resolves to"],
]);

/** Field name such as `input.meta.crop` for a path in a JSON Schema (`properties`, `meta`, `properties`, `crop`). */
function pathName(field: string, path: readonly (string | number)[]): string {
  const names: (string | number)[] = [field];
  for (let i = 0; i + 1 < path.length; i++) if (path[i] === "properties") names.push(path[++i] ?? "");
  return names.join(".");
}
