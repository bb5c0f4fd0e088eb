/** Functions for JSON values. Undefined stands for an omitted field. */
import { isObject, type Json } from "../../../base/json.ts";
import type { SchemaNode } from "../../../base/schemas/json-schema.ts";

export type Value = Json | undefined;

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

export function numberText(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
