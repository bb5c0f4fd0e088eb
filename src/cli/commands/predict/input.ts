/** Makes an input, as a request would have it, from --json or the example, and from arguments `field=value`. */
import { closest } from "../../../base/closest.ts";
import { messageOf } from "../../../base/errors.ts";
import { isObject, parsedJson } from "../../../base/json.ts";
import type { JsonType, SchemaNode } from "../../../base/schemas/json-schema.ts";
import { usage } from "../../command-line/command.ts";
import { arrayOf, dataUriOf, fileValue, readText } from "./input-file.ts";
import { isFile } from "./schema.ts";

export interface InputParts {
  /** The model's name in messages. */
  readonly model: string;
  readonly schema: SchemaNode;
  /** A whole input as JSON text, `@file`, or `-` for standard input. `fields` override its members. */
  readonly json: string | undefined;
  /** The model's example, for a call that uses it as the whole input. */
  readonly example: unknown;
  /** Arguments `field=value`. */
  readonly fields: readonly string[];
}

/** Makes the input. @throws SconceError `usage` naming the field, its type and the given value */
export async function readInput({ model, schema, json, example, fields }: InputParts): Promise<unknown> {
  const whole = json === undefined ? (example ?? {}) : await withFiles(await readJson(json), schema, "--json");
  if (!isObject(whole)) throw usage(`--json must be an object with the fields of one input, not ${nameOf(whole)}`);
  const input: Record<string, unknown> = { ...whole };
  for (const [name, texts] of Map.groupBy(fields.map(splitField), ({ name }) => name)) {
    input[name] = await readField(
      name,
      texts.map(({ text }) => text),
      schema.field(name) ?? unknownField(name, model, schema),
    );
  }
  for (const name of Object.keys(input)) if (!schema.field(name)) unknownField(name, model, schema);
  const missing = schema.required.find((name) => !Object.hasOwn(input, name));
  if (missing === undefined) return input;
  throw usage(`missing field ${missing}; ${model} takes ${describeFields(schema)}`);
}

function splitField(text: string): { name: string; text: string } {
  const equals = text.indexOf("=");
  if (equals > 0) return { name: text.slice(0, equals), text: text.slice(equals + 1) };
  throw usage(`${JSON.stringify(text)} is not field=value`);
}

async function readField(name: string, texts: readonly string[], node: SchemaNode): Promise<unknown> {
  const isList = node.types.has("array") && !texts.some((text) => isWholeArray(text, node));
  if (isList) return Promise.all(texts.map((text, i) => readValue(name, text, node.element(i))));
  if (texts.length > 1) throw usage(`field ${name} is given ${texts.length} times; it takes one value`);
  return readValue(name, texts[0] ?? "", node);
}

/** Whether a text is a whole array, and not only one of its elements. */
function isWholeArray(text: string, node: SchemaNode): boolean {
  const element = node.element(0);
  if (text.startsWith("[")) return true;
  if (isFile(element)) return false;
  return text.startsWith("@") || (isFile(node) && !isOfAny(element.types, parsedJson(text)));
}

async function readValue(name: string, given: string, node: SchemaNode): Promise<unknown> {
  if (isFile(node)) {
    // A tensor field accepts lists, or the name of a file.
    const value = parsedJson(given);
    return isOfAny(node.types, value) && typeof value !== "string" ? value : readFile(given, name, node);
  }
  const text = given.startsWith("@") ? await readText(given.slice(1), name) : given;
  const listed = node.values.find((value) => String(value) === text);
  if (listed !== undefined) return listed;
  const { types } = node;
  if (types.size === 0) return parsedJson(text) ?? text;
  if (types.has("null") && text === "null") return null;
  if (node.takesAnyText) return text;
  const value = parsedJson(text);
  if (isOfAny(types, value)) return withFiles(value, node, name);
  // A string outside the enum passes: the model's own schema reports it.
  if (types.has("string")) return text;
  throw usage(`${name} must be ${[...types].map((type) => nouns[type]).join(" or ")}, not ${shown(text)}`);
}

function readFile(text: string, name: string, node: SchemaNode): Promise<unknown> {
  return fileValue(text, name, node.takesArrayBytes ? arrayOf : dataUriOf);
}

/** Replaces the paths in file fields of a JSON value by the content of the files. */
async function withFiles(value: unknown, node: SchemaNode, name: string): Promise<unknown> {
  if (typeof value === "string") return isFile(node) ? readFile(value, name, node) : value;
  if (Array.isArray(value)) return Promise.all(value.map((one, i) => withFiles(one, node.element(i), `${name}.${i}`)));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(async ([key, one]) => {
    const field = node.field(key);
    return [key, field ? await withFiles(one, field, name === "--json" ? key : `${name}.${key}`) : one] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

async function readJson(given: string): Promise<unknown> {
  const path = given === "-" ? given : given.startsWith("@") ? given.slice(1) : undefined;
  const text = path === undefined ? given : await readText(path, "--json");
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = messageOf(error).replace(/^JSON Parse error: /, "");
    throw usage(`--json must be JSON, "@" and a file, or "-" for standard input, not ${shown(text)} (${why})`);
  }
}

const nouns: Record<JsonType, string> = {
  string: "a text",
  number: "a number",
  integer: "a whole number",
  boolean: "true or false",
  null: "null",
  array: "a JSON array",
  object: "a JSON object",
};

function isOfAny(types: ReadonlySet<JsonType>, value: unknown): boolean {
  return [...types].some((type) => isOf(type, value));
}

function isOf(type: JsonType, value: unknown): boolean {
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "integer") return Number.isSafeInteger(value);
  return type === (value === null ? "null" : typeof value);
}

/** The fields as a usage line: `image=<file or URL> scores=<JSON array, file or data URI> [steps=<whole number>]`. */
function describeFields(schema: SchemaNode): string {
  const { required } = schema;
  const list = [...schema.fields].map(([name, node]) => {
    const field = `${name}=<${describeValue(node)}>`;
    return required.includes(name) ? field : `[${field}]`;
  });
  return list.length > 0 ? list.join(" ") : "any field";
}

function describeValue(node: SchemaNode): string {
  const types = [...node.types].filter((type) => !(type === "string" && isFile(node)));
  const all = types.map((type) => nouns[type].replace(/^an? /, ""));
  if (isFile(node)) all.push("file", node.takesArrayBytes ? "data URI" : "URL");
  const last = all.pop() ?? "value";
  return all.length > 0 ? `${all.join(", ")} or ${last}` : last;
}

function unknownField(name: string, model: string, schema: SchemaNode): never {
  const near = closest(name, schema.fields.keys());
  const hint = near === undefined ? `it takes ${describeFields(schema)}` : `did you mean ${near}?`;
  throw usage(`${model} has no field ${name}; ${hint}`);
}

function nameOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : `a ${typeof value}`;
}

function shown(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
