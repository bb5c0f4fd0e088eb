/** Short values that fit a JSON Schema, for the samples in the documentation. */
import { isObject, targetOf } from "../json.ts";
import type { JsonSchema } from "../model/wire-schema.ts";
import * as z from "../model/z.ts";

/** Longest list and text that are still read as samples. */
const MAX_ELEMENTS = 16;
const MAX_CHARACTERS = 100;
const MAX_LEVELS = 8;

/** By `format`; all of them are longer than most least lengths. */
const texts: Readonly<Record<string, string>> = {
  uri: "data:text/plain;base64,c2NvbmNl",
  "date-time": "2026-01-01T12:00:00Z",
  date: "2026-01-01",
  time: "12:00:00",
  duration: "PT1S",
  email: "person@example.com",
  uuid: "0198c1f2-7c5e-7d3a-9c39-0b5f3c2d1e4f",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
};
/** The smallest picture there is: one pixel. */
const picture = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAICTAEAOw==";

/**
 * @param schema a document of its own: its references lead to itself or into its `$defs`
 * @returns undefined when no short value is found: a list has to be long, a text to have a pattern
 */
export function sampleOf(schema: JsonSchema): unknown {
  const sample = sampleWithin(schema, schema, 0);
  if (sample === undefined) return undefined;
  try {
    // What is made above knows only the common keywords.
    return z.fromJSONSchema({ ...schema }).safeParse(sample).success ? sample : undefined;
  } catch {
    return undefined;
  }
}

function sampleWithin(schema: unknown, root: JsonSchema, level: number): unknown {
  if (!isObject(schema) || level > MAX_LEVELS) return undefined;
  const given = [schema.const, ...listOf(schema.examples), schema.default, ...listOf(schema.enum)];
  const known = given.find((value) => value !== undefined);
  if (known !== undefined) return known;
  if (typeof schema.$ref === "string") return sampleWithin(targetOf(schema.$ref, root), root, level + 1);
  for (const option of [...listOf(schema.anyOf), ...listOf(schema.oneOf)]) {
    const sample = sampleWithin(option, root, level + 1);
    if (sample !== undefined) return sample;
  }
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") return objectOf(schema, root, level);
  if (type === "array") return arrayOf(schema, root, level);
  if (type === "string") return textOf(schema);
  if (type === "number" || type === "integer") return numberOf(schema);
  if (type === "boolean") return true;
  return type === "null" ? null : undefined;
}

function objectOf(schema: JsonSchema, root: JsonSchema, level: number): unknown {
  const required = new Set(listOf(schema.required));
  const entries: [string, unknown][] = [];
  for (const [key, field] of Object.entries(isObject(schema.properties) ? schema.properties : {})) {
    const sample = sampleWithin(field, root, level + 1);
    if (sample !== undefined) entries.push([key, sample]);
    else if (required.has(key)) return undefined;
  }
  return Object.fromEntries(entries);
}

function arrayOf(schema: JsonSchema, root: JsonSchema, level: number): unknown {
  const first = listOf(schema.prefixItems).map((element) => sampleWithin(element, root, level + 1));
  if (first.includes(undefined)) return undefined;
  const least = numberIn(schema.minItems) ?? Math.min(1, numberIn(schema.maxItems) ?? 1);
  if (least <= first.length) return first;
  const element = sampleWithin(schema.items, root, level + 1);
  if (element === undefined) return numberIn(schema.minItems) === undefined ? first : undefined;
  if (least > MAX_ELEMENTS) return undefined;
  return [...first, ...Array.from({ length: least - first.length }, () => element)];
}

function textOf({ format, contentMediaType, minLength, maxLength }: JsonSchema): string | undefined {
  if ((numberIn(minLength) ?? 0) > MAX_CHARACTERS) return undefined;
  if (typeof contentMediaType === "string" && contentMediaType.startsWith("image/")) return picture;
  const text = typeof format === "string" ? texts[format] : undefined;
  return text ?? "text".padEnd(numberIn(minLength) ?? 0, ".").slice(0, numberIn(maxLength));
}

function numberOf({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: JsonSchema): number {
  const step = numberIn(multipleOf) ?? (type === "integer" ? 1 : 0.5);
  const least = Math.max(numberIn(minimum) ?? -Infinity, (numberIn(exclusiveMinimum) ?? -Infinity) + step);
  const most = Math.min(numberIn(maximum) ?? Infinity, (numberIn(exclusiveMaximum) ?? Infinity) - step);
  return Math.min(Math.max(step, least), most);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function numberIn(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
