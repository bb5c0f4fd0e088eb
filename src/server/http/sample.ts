/** Short values that fit a JSON Schema, for the samples in the documentation. */

import * as z from "../../author/z.ts";
import { type JsonSchema, SchemaNode } from "../../base/json-schema.ts";

/** Longest list and text that are still read as samples. */
const MAX_ELEMENTS = 16;
const MAX_CHARACTERS = 100;
const MAX_LEVELS = 8;

/** By `format`; all of them are longer than most least lengths. */
const texts: Readonly<Record<string, string>> = {
  uri: "https://example.com/",
  "date-time": "2026-01-01T12:00:00Z",
  date: "2026-01-01",
  time: "12:00:00",
  duration: "PT1S",
  email: "person@example.com",
  uuid: "0198c1f2-7c5e-7d3a-9c39-0b5f3c2d1e4f",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
};
export const plainFile = "data:text/plain;base64,c2NvbmNl";
/** The smallest picture: one pixel. */
const picture = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAICTAEAOw==";

/**
 * @param schema a document of its own: its references lead to itself or into its `$defs`
 * @returns undefined when no short value is found: a list has to be long, a text to have a pattern
 */
export function sampleOf(schema: JsonSchema): unknown {
  const sample = sampleWithin(SchemaNode.of(schema), 0);
  if (sample === undefined) return undefined;
  try {
    // What is made above knows only the common keywords.
    return z.fromJSONSchema({ ...schema }).safeParse(sample).success ? sample : undefined;
  } catch {
    return undefined;
  }
}

function sampleWithin(node: SchemaNode, level: number): unknown {
  if (level > MAX_LEVELS) return undefined;
  const { schema, examples, values, parts } = node;
  const known = [schema.const, ...examples, schema.default, ...(parts.length === 0 ? values : [])];
  const given = known.find((value) => value !== undefined);
  if (given !== undefined) return given;
  for (const part of parts) {
    const sample = sampleWithin(part, level + 1);
    if (sample !== undefined) return sample;
  }
  const [type] = node.types;
  if (type === "object") return objectOf(node, level);
  if (type === "array") return arrayOf(node, level);
  if (type === "string") return textOf(node);
  if (type === "number" || type === "integer") return numberOf(node, type);
  if (type === "boolean") return true;
  return type === "null" ? null : undefined;
}

function objectOf({ fields, required }: SchemaNode, level: number): unknown {
  const entries: [string, unknown][] = [];
  for (const [key, field] of fields) {
    const sample = sampleWithin(field, level + 1);
    if (sample !== undefined) entries.push([key, sample]);
    else if (required.includes(key)) return undefined;
  }
  return Object.fromEntries(entries);
}

function arrayOf({ first: tuple = [], items, minItems, maxItems }: SchemaNode, level: number): unknown {
  const first = tuple.map((element) => sampleWithin(element, level + 1));
  if (first.includes(undefined)) return undefined;
  const least = minItems ?? Math.min(1, maxItems ?? 1);
  if (least <= first.length) return first;
  const element = sampleWithin(items, level + 1);
  if (element === undefined) return minItems === undefined ? first : undefined;
  if (least > MAX_ELEMENTS) return undefined;
  return [...first, ...Array.from({ length: least - first.length }, () => element)];
}

function textOf({ format, file, minLength = 0, maxLength }: SchemaNode): string | undefined {
  if (minLength > MAX_CHARACTERS) return undefined;
  if (file !== undefined) return file.mediaTypes.some((type) => type.startsWith("image/")) ? picture : plainFile;
  const text = format === undefined ? undefined : texts[format];
  return text ?? "text".padEnd(minLength, ".").slice(0, maxLength);
}

function numberOf(
  { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: SchemaNode,
  type: "number" | "integer",
): number {
  const step = multipleOf ?? (type === "integer" ? 1 : 0.5);
  const least = Math.max(minimum ?? -Infinity, (exclusiveMinimum ?? -Infinity) + step);
  const most = Math.min(maximum ?? Infinity, (exclusiveMaximum ?? Infinity) - step);
  return Math.min(Math.max(step, least), most);
}
