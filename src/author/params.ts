/** Parameters of a model: declared by `params`, set by `--param name=value`. */

import { SconceError } from "../base/errors.ts";
import { SchemaNode } from "../base/schemas/json-schema.ts";
import { wireSchema } from "./wire-schema.ts";
import * as z from "./z.ts";

/**
 * Checks the values of parameters and adds the defaults.
 * @throws SconceError `usage`
 */
export function paramsOf(schema: z.ZodObject | undefined, given: Readonly<Record<string, unknown>>): unknown {
  const names = Object.keys(schema?.shape ?? {});
  for (const name of Object.keys(given)) {
    if (schema === undefined) throw usage(`there is no parameter ${name}; the model declares no params`);
    if (!names.includes(name)) throw usage(`there is no parameter ${name}; the model has ${names.join(", ")}`);
  }
  const parsed = schema?.safeParse(given);
  if (parsed === undefined || parsed.success) return parsed?.data ?? {};
  const [issue] = parsed.error.issues;
  throw usage(`the parameter ${issue?.path.join(".")}: ${issue?.message}`);
}

/**
 * Reads the operator's parameters.
 * @param given texts `name=value`; the value of a field that takes no text is JSON
 */
export function paramsIn(schema: z.ZodObject | undefined, given: readonly string[]): Record<string, unknown> {
  if (given.length === 0) return {};
  const fields = schema && SchemaNode.of(wireSchema(schema, "params")).fields;
  const values = given.map((each): [string, unknown] => {
    const at = each.indexOf("=");
    const name = each.slice(0, at);
    const [text, field] = [each.slice(at + 1), fields?.get(name)];
    return [name, field === undefined ? text : parsedValue(text, field)];
  });
  return Object.fromEntries(values);
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
  return new SconceError("usage", problem);
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
