/** Functions for JSON values. Undefined stands for an omitted field. */
import type { Json, JsonObject } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";

export type { Json, JsonObject };
export type Value = Json | undefined;

export function isObject(value: Value): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isList(value: Value): value is readonly Json[] {
  return Array.isArray(value);
}

export function isNumbers(value: Value): value is readonly number[] {
  return isList(value) && value.length > 0 && value.every((each) => typeof each === "number");
}

/**
 * Adds a part of an output to the value so far: appends a text, replaces a file or another value, and does so for each member of an object.
 * @param schema schema of the part
 */
export function grownBy(schema: SchemaNode | undefined, before: Value, part: Json): Json {
  if (typeof part === "string" && typeof before === "string") {
    return schema?.file === undefined ? before + part : part;
  }
  if (!isObject(part) || !isObject(before)) return part;
  const members = Object.entries(part).map(
    ([name, value]) => [name, grownBy(schema?.field(name), before[name], value)] as const,
  );
  return { ...before, ...Object.fromEntries(members) };
}

export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A title from a name: `heatMap` and `heat_map` become `Heat map`. */
export function titleOf(name: string): string {
  const words = name.replaceAll(/[_-]+/g, " ").replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2");
  return sentence(words.trim().replaceAll(/(?<=.)\b[A-Z](?=[a-z])/g, (letter) => letter.toLowerCase()));
}

/** The first text in a value that passes the test; undefined without one. */
export function firstText(value: Value, test: (text: string) => boolean): string | undefined {
  if (typeof value === "string") return test(value) ? value : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  for (const each of Object.values(value)) {
    const found = firstText(each, test);
    if (found !== undefined) return found;
  }
  return undefined;
}

export function isFile(text: string): boolean {
  return text.startsWith("data:");
}

export function isPicture(text: string): boolean {
  return /^data:image\//i.test(text) || /^https?:[^?#]*\.(?:png|jpe?g|webp|gif|bmp|avif)(?:[?#]|$)/i.test(text);
}

/** The media type of a data URI; empty for other URLs. */
export function mediaTypeOf(url: string): string {
  return /^data:([^;,]*)/i.exec(url)?.[1]?.toLowerCase() ?? "";
}

export function extensionOf(mediaType: string): string {
  const plain = mediaType.replace(/^[^/]*\/(?:x-)?|\+.*$/g, "");
  return { jpeg: "jpg", plain: "txt", "octet-stream": "bin", mpeg: "mp3", "": "bin" }[plain] ?? plain;
}

/** Size of the content of a base64 data URI, such as `1.2 MB`. */
export function sizeText(dataUri: string): string {
  const characters = dataUri.length - dataUri.indexOf(",") - 1 - (/=*$/.exec(dataUri.slice(-2))?.[0].length ?? 0);
  const bytes = Math.floor((characters * 3) / 4);
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Formats the numbers of a list with the same number of decimals, so that they align. Shares that add up to 1 become percentages. */
export function alignedTexts(values: readonly number[]): string[] {
  if (values.every(Number.isInteger)) return values.map(String);
  const sum = values.reduce((all, value) => all + value, 0);
  if (values.every((value) => value >= 0 && value <= 1) && Math.abs(sum - 1) < 0.01) {
    return values.map((value) => `${(100 * value).toFixed(1)} %`);
  }
  const most = Math.max(...values.map(Math.abs));
  if (most >= 1e6 || most < 1e-3) return values.map((value) => value.toExponential(3));
  return values.map((value) => value.toFixed(Math.max(0, 3 - Math.floor(Math.log10(most)))));
}

export function numberText(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
