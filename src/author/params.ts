/** Parameters of a model: declared by `params`, set by `--param name=value`. */

import { SconceError } from "../base/errors.ts";
import { SchemaNode } from "../base/json-schema.ts";
import { wireSchema } from "./wire-schema.ts";
import * as z from "./z.ts";

/**
 * Parses the operator's parameters and adds the defaults.
 * @param given texts `name=value`; the value of a field that takes no text is JSON
 * @throws SconceError `usage`
 */
export function paramsOf(schema: z.ZodObject | undefined, given: readonly string[]): unknown {
  if (schema === undefined && given.length > 0) throw usage("the model declares no params");
  if (schema === undefined) return {};
  const { fields } = SchemaNode.of(wireSchema(schema, "params"));
  const values = given.map((each): [string, unknown] => {
    const at = each.indexOf("=");
    const name = each.slice(0, at);
    const field = fields.get(name);
    if (field === undefined)
      throw usage(`there is no parameter ${name}; the model has ${[...fields.keys()].join(", ")}`);
    return [name, parsedValue(each.slice(at + 1), field)];
  });
  const parsed = schema.safeParse(Object.fromEntries(values));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw usage(`${issue?.path.join(".")}: ${issue?.message}`);
}

function parsedValue(text: string, { types }: SchemaNode): unknown {
  if (types.has("string")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function usage(problem: string): SconceError {
  return new SconceError("usage", `--param: ${problem}`);
}

/** Faults of the author's `params` schema. Every parameter needs a default, so that commands run without `--param`. */
export function paramsFaults(schema: unknown): string[] {
  if (!(schema instanceof z.ZodObject)) return ["params: must be z.object({ … })"];
  const parsed = schema.safeParse({});
  if (parsed.success) return [];
  return parsed.error.issues.map(
    ({ path }) => `params.${path.join(".")}: needs a value without an option; add .default(…)`,
  );
}
