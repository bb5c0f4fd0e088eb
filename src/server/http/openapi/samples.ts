/** Generates short values that match a JSON Schema, as examples for the OpenAPI document. */

import { decodeDataUrl, isDataUrl } from "../../../author/data-url.ts";
import * as z from "../../../author/z.ts";
import { isObject } from "../../../base/json.ts";
import { type JsonSchema, SchemaNode } from "../../../base/json-schema.ts";
import type { Family } from "../record-json.ts";

const MAX_ELEMENTS = 16;
const MAX_CHARACTERS = 100;
const MAX_LEVELS = 8;

/** Sample strings by `format`, long enough for the minimum length of most schemas. */
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
const plainFile = "data:text/plain;base64,c2NvbmNl";
const picture = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAICTAEAOw==";

/**
 * Generates a value for a schema.
 * @param schema a complete JSON Schema, whose references lead to `#` or into `$defs`
 * @returns undefined if no short value matches, for example if the schema requires a long list or a pattern
 */
export function sampleOf(schema: JsonSchema): unknown {
  const sample = makeSample(SchemaNode.of(schema), 0);
  if (sample === undefined) return undefined;
  try {
    // makeSample() ignores rare keywords, so zod validates the sample.
    return z.fromJSONSchema({ ...schema }).safeParse(sample).success ? sample : undefined;
  } catch {
    return undefined;
  }
}

function makeSample(node: SchemaNode, level: number): unknown {
  if (level > MAX_LEVELS) return undefined;
  const { schema, examples, values, parts } = node;
  const known = [schema.const, ...examples, schema.default, ...(parts.length === 0 ? values : [])];
  const given = known.find((value) => value !== undefined);
  if (given !== undefined) return given;
  for (const part of parts) {
    const sample = makeSample(part, level + 1);
    if (sample !== undefined) return sample;
  }
  const [type] = node.types;
  if (type === "object") return objectSample(node, level);
  if (type === "array") return arraySample(node, level);
  if (type === "string") return textSample(node);
  if (type === "number" || type === "integer") return numberSample(node, type);
  if (type === "boolean") return true;
  return type === "null" ? null : undefined;
}

function objectSample({ fields, required }: SchemaNode, level: number): unknown {
  const entries: [string, unknown][] = [];
  for (const [key, field] of fields) {
    const sample = makeSample(field, level + 1);
    if (sample !== undefined) entries.push([key, sample]);
    else if (required.includes(key)) return undefined;
  }
  return Object.fromEntries(entries);
}

function arraySample({ first: tuple = [], items, minItems, maxItems }: SchemaNode, level: number): unknown {
  const first = tuple.map((element) => makeSample(element, level + 1));
  if (first.includes(undefined)) return undefined;
  const least = minItems ?? Math.min(1, maxItems ?? 1);
  if (least <= first.length) return first;
  const element = makeSample(items, level + 1);
  if (element === undefined) return minItems === undefined ? first : undefined;
  if (least > MAX_ELEMENTS) return undefined;
  return [...first, ...Array.from({ length: least - first.length }, () => element)];
}

function textSample({ format, file, minLength = 0, maxLength }: SchemaNode): string | undefined {
  if (minLength > MAX_CHARACTERS) return undefined;
  if (file !== undefined) return file.mediaTypes.some((type) => type.startsWith("image/")) ? picture : plainFile;
  const text = format === undefined ? undefined : texts[format];
  return text ?? "text".padEnd(minLength, ".").slice(0, maxLength);
}

function numberSample(
  { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: SchemaNode,
  type: "number" | "integer",
): number {
  const step = multipleOf ?? (type === "integer" ? 1 : 0.5);
  const least = Math.max(minimum ?? -Infinity, (exclusiveMinimum ?? -Infinity) + step);
  const most = Math.min(maximum ?? Infinity, (exclusiveMaximum ?? Infinity) - step);
  return Math.min(Math.max(step, least), most);
}

/** Samples of outputs; undefined if no short value matches the schema. */
export interface OutputSamples {
  /** Sample of a part, which the model yields before the whole output; undefined if the model yields none. */
  readonly part: unknown;
  readonly output: unknown;
  readonly demoOutput: unknown;
}

type Status = "pending" | "running" | "success" | "failed" | "canceled";

const sampleVersion = { repository: "digits", tag: "9f86d081884c", digest: `sha256:9f86d081884c${"0".repeat(52)}` };

/** Examples of a prediction with these statuses, in this order. Leaves out a status that needs an output if there is no sample of it. */
export function recordSamples(
  family: Family,
  { output, demoOutput }: Omit<OutputSamples, "part">,
  statuses: readonly Status[],
): Record<string, { value: object }> {
  const isDemo = family.kind === "demo";
  const record = (status: string, members: object, times: object) => ({
    [family.idName]: "k3v9q7x1c5m2",
    status,
    ...members,
    ...(isDemo ? { logs: "" } : {}),
    model: sampleVersion,
    created_at: "2026-01-01T12:00:00.000Z",
    ...times,
  });
  const started = { started_at: "2026-01-01T12:00:00.002Z" };
  const ended = { ...started, finished_at: "2026-01-01T12:00:00.010Z" };
  const fault = "the file is not an image";
  const failure = {
    error_message: `${isDemo ? "" : "1 of 2 inputs failed: "}input 1: ${fault}`,
    errors: [{ index: 1, message: fault }],
  };
  const values: Record<Status, object | undefined> = {
    pending: record("pending", {}, {}),
    running: record("running", {}, started),
    success:
      output === undefined || (isDemo && demoOutput === undefined)
        ? undefined
        : record("success", { outputs: [output], ...(isDemo ? { demo_outputs: [demoOutput] } : {}) }, ended),
    failed:
      output === undefined && !isDemo
        ? undefined
        : record("failed", { ...failure, ...(isDemo ? {} : { partial_outputs: [output, null] }) }, ended),
    canceled: record("failed", { error_message: "Canceled" }, ended),
  };
  const samples: Record<string, { value: object }> = {};
  for (const status of statuses) {
    const value = values[status];
    if (value !== undefined) samples[status] = { value };
  }
  return samples;
}

const MAX_EXAMPLE_CHARACTERS = 1000;
/** Side lengths in pixels to shrink a picture to, tried in this order until its data URI is short enough. */
const sides = [96, 64, 48, 32, 16];

/** Copies an input. Shrinks pictures whose data URI is longer than 1000 characters, and replaces other long files by a short text file. */
export async function shortened(value: unknown): Promise<unknown> {
  if (Array.isArray(value)) return Promise.all(value.map(shortened));
  if (isObject(value)) {
    const entries = Object.entries(value).map(async ([key, each]) => [key, await shortened(each)] as const);
    return Object.fromEntries(await Promise.all(entries));
  }
  if (typeof value !== "string" || value.length <= MAX_EXAMPLE_CHARACTERS || !isDataUrl(value)) return value;
  return /^data:image\//i.test(value) ? shrinkPicture(value).catch(() => plainFile) : plainFile;
}

async function shrinkPicture(uri: string): Promise<string> {
  const { bytes } = decodeDataUrl(uri, Number.POSITIVE_INFINITY);
  for (const side of sides) {
    const picture = new Bun.Image(bytes).resize(side, side, { fit: "inside", withoutEnlargement: true });
    const text = `data:image/webp;base64,${onlyPixels(await picture.webp({ quality: 60 }).bytes()).toBase64()}`;
    if (text.length <= MAX_EXAMPLE_CHARACTERS) return text;
  }
  return plainFile;
}

/** Keeps only the pixels of a WebP file. A colour profile would take 3 kB. */
function onlyPixels(webp: Uint8Array): Uint8Array {
  const file = Buffer.from(webp);
  for (let at = 12; at + 8 <= file.length; ) {
    const length = file.readUInt32LE(at + 4);
    const end = at + 8 + length + (length % 2);
    if (/^VP8[ L]$/.test(file.toString("latin1", at, at + 4))) {
      const whole = Buffer.concat([file.subarray(0, 12), file.subarray(at, end)]);
      whole.writeUInt32LE(whole.length - 8, 4);
      return whole;
    }
    at = end;
  }
  return webp;
}
