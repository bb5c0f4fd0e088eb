/** Converts a form (RFC 7578) to a JSON list with one input. */
import { isDataUrl } from "../author/data-url.ts";
import { isEssence, mediaTypeOf } from "../author/media-type.ts";
import type { SchemaNode } from "../base/schemas/json-schema.ts";
import { Turn } from "../base/turn.ts";
import { type Body, LARGE_BYTES } from "../pipeline/inputs/body.ts";
import { anything, hasOnlyDataUrls, takes } from "../pipeline/inputs/expected-kinds.ts";
import { inputsInvalid, utf8 } from "../pipeline/inputs/input-decoder.ts";
import { ProblemError } from "./problem.ts";

/** Bytes of a file that one step encodes as base64. A multiple of 3, so that only the last step adds padding. */
const SLICE_BYTES = 3 * 2 ** 18;

/** Maximum characters of a text that `isJson` parses. */
const MAX_PARSED = 1024;

type Value = Part["value"];
/** JSON of an input, in which each file stands for its data URL. */
type Pieces = readonly Value[];

/**
 * Converts a form to JSON. The name of a part is a field of the input; parts with the same name are a list. An input that is no object is one part of any
 * name. A file becomes a data URL; a JSON file becomes JSON where the schema takes no text. For other parts, the schema decides between a JSON string and
 * JSON. A file field that the user left empty is absent.
 *
 * @param expected the kinds of JSON values that an input accepts
 * @throws SconceError `body_invalid` or `inputs_invalid`; ProblemError 400 or 413
 */
export async function inputsOfForm(
  chunks: readonly Uint8Array<ArrayBuffer>[],
  boundary: string,
  expected: SchemaNode,
): Promise<Body> {
  const bytes = Bun.concatArrayBuffers([...chunks], Infinity, true);
  const turn = new Turn();
  const fields = new Map<string, Value[]>();
  for (const { name, value } of partsOf(bytes, boundary)) {
    // Some clients write `names[]` for the elements of a list.
    const field = name.replace(/\[\]$/, "");
    if (field === "") throw inputsInvalid([{ pointer: "", detail: `a part has the name ${JSON.stringify(name)}` }]);
    const values = fields.get(field) ?? [];
    if (typeof value === "string" || !value.isLeftEmpty) values.push(value);
    fields.set(field, values);
    if (turn.isOver) await turn.next();
  }
  return bodyOf(["[", ...inputOf(fields, expected), "]"], turn);
}

function inputOf(fields: ReadonlyMap<string, readonly Value[]>, expected: SchemaNode): Pieces {
  const [first, ...others] = fields.values();
  if (first !== undefined && others.length === 0 && !takes(expected, "object")) return fieldOf(first, expected);
  const members = [...fields]
    .filter(([, values]) => values.length > 0)
    .map(([name, values]) => [`${JSON.stringify(name)}:`, ...fieldOf(values, expected.field(name) ?? anything)]);
  return ["{", ...joined(members), "}"];
}

function fieldOf(parts: readonly Value[], expected: SchemaNode): Pieces {
  const isList = takes(expected, "array");
  const isText = takesText(expected) || (isList && takesText(expected.element(0)));
  const values = parts.map((value) => (isJsonFile(value) && !isText ? utf8(value.bytes) : value));
  const [first = ""] = values;
  const isNull = first === "null" && takes(expected, "null") && !takesText(expected.element(0));
  const isElement = isList && !isString(first, expected) && !isJsonList(first) && !isNull;
  if (values.length === 1 && !isElement) return [valueJson(first, expected)];
  return ["[", ...joined(values.map((value, i) => [valueJson(value, expected.element(i))])), "]"];
}

function joined(all: readonly Pieces[]): Pieces {
  return all.flatMap((pieces, i) => (i === 0 ? pieces : [",", ...pieces]));
}

/**
 * The JSON of a part. Text becomes a JSON string if the schema takes text, or if the text is not JSON: validation then refuses the string with a clear
 * message.
 */
function valueJson(value: Value, expected: SchemaNode): Value {
  if (typeof value !== "string") return value;
  return takesText(expected) || !isJson(value) ? JSON.stringify(value) : value;
}

/** Whether the schema accepts strings other than data URLs. */
function takesText(expected: SchemaNode): boolean {
  return takes(expected, "string") && !hasOnlyDataUrls(expected);
}

/** Whether the schema accepts the value as a string. A file counts as a data URL. */
function isString(value: Value, expected: SchemaNode): boolean {
  return takes(expected, "string") && (!hasOnlyDataUrls(expected) || typeof value !== "string" || isDataUrl(value));
}

/** Whether the part is a JSON file. Browsers send a Blob of JSON as a file. */
function isJsonFile(value: Value): value is FilePart {
  return typeof value !== "string" && value.isJson;
}

/** Whether the text is JSON. Returns true for a long text without a parse: to parse ten thousand long texts would block the event loop. */
function isJson(text: string): boolean {
  if (text.length > MAX_PARSED) return true;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function isJsonList(value: Value): boolean {
  return typeof value === "string" && value.trimStart().startsWith("[") && isJson(value);
}

/** Joins the pieces of JSON. @returns one string for a small body, a list of UTF-8 chunks for a large one */
async function bodyOf(pieces: Pieces, turn: Turn): Promise<Body> {
  const encoder = new TextEncoder();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let text = "";
  const add = (piece: string) => {
    text += piece;
    if (text.length <= LARGE_BYTES) return;
    chunks.push(encoder.encode(text));
    text = "";
  };
  for (const piece of pieces) {
    if (turn.isOver) await turn.next();
    if (typeof piece === "string") {
      add(piece);
      continue;
    }
    const { mediaType, bytes } = piece;
    add(`"data:${mediaType};base64,`);
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
      add(bytes.subarray(at, at + SLICE_BYTES).toBase64());
      if (turn.isOver) await turn.next();
    }
    add('"');
  }
  return chunks.length === 0 ? text : [...chunks, encoder.encode(text)];
}

/** Maximum number of parts. Even empty parts above this number would take seconds. */
const MAX_PARTS = 10_000;
/** Maximum size of the headers of one part. Browsers send about 200 bytes; a file name may have a kilobyte. */
const MAX_HEAD_BYTES = 4 * 1024;
/** Maximum number of parameters of a Content-Disposition. Forms use three: `name`, `filename` and `filename*`. */
const MAX_PARAMETERS = 8;

export interface FilePart {
  readonly bytes: Uint8Array;
  readonly mediaType: string;
  readonly isJson: boolean;
  /** Whether the user chose no file: browsers then send no bytes under an empty name (HTML, "constructing the entry list"). */
  readonly isLeftEmpty: boolean;
}

export interface Part {
  readonly name: string;
  readonly value: string | FilePart;
}

/** The boundary in a Content-Type; undefined if the type is not multipart/form-data. */
export function boundaryOf(mediaType: string): string | undefined {
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(mediaType);
  return match?.[1] ?? match?.[2];
}

/**
 * Reads the parts of a form. Bun's FormData is no substitute: it ignores the media type of a file, and guesses it from the file name.
 * @throws SconceError `body_invalid`; ProblemError 400 or 413
 */
export function* partsOf(bytes: Uint8Array<ArrayBuffer>, boundary: string): Generator<Part> {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const delimiter = `\r\n--${boundary}`;
  let count = 0;
  // No line break precedes the delimiter at the start of a body.
  const first = body.indexOf(delimiter.slice(2));
  if (first < 0) throw notForm();
  for (let at = first + delimiter.length - 2; body.toString("latin1", at, at + 2) !== "--"; ) {
    const blank = body.indexOf("\r\n\r\n", at);
    // The search begins at the last line break of the headers: in an empty part, the delimiter may begin there.
    const end = blank < 0 ? -1 : body.indexOf(delimiter, blank + 2);
    if (end < 0 || blank - at > MAX_HEAD_BYTES) throw notForm();
    if (++count > MAX_PARTS) {
      throw new ProblemError({ code: "body_too_large", detail: `a form may have at most ${MAX_PARTS} parts` });
    }
    yield partOf(body.toString("utf8", at, blank), bytes.subarray(blank + 4, Math.max(blank + 4, end)));
    at = end + delimiter.length;
  }
}

function partOf(head: string, bytes: Uint8Array): Part {
  const [, disposition = ""] = /^content-disposition:\s*form-data(.*)$/im.exec(head) ?? [];
  const [, type = ""] = /^content-type:(.*)$/im.exec(head) ?? [];
  const pairs = disposition.matchAll(/;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]*))/g);
  const parameters = [...pairs.take(MAX_PARAMETERS + 1)];
  if (parameters.length > MAX_PARAMETERS) throw notForm();
  const names = new Map(parameters.map(([, key = "", quoted, plain = ""]) => [key.toLowerCase(), quoted ?? plain]));
  const name = names.get("name") ?? "";
  const { essence, parameters: typeParameters } = mediaTypeOf(type);
  const isJson = /^application\/(.+\+)?json$/.test(essence);
  const isText = essence === "" || essence.startsWith("text/") || isJson;
  if (isText && !names.has("filename") && !names.has("filename*")) return { name, value: utf8(bytes) };
  const mediaType = isEssence(essence) ? `${essence}${typeParameters}` : "application/octet-stream";
  const isLeftEmpty = bytes.length === 0 && names.get("filename") === "";
  return { name, value: { bytes, mediaType, isJson, isLeftEmpty } };
}

function notForm(): ProblemError {
  const detail = "the body is not the form that its Content-Type announces";
  return new ProblemError({ code: "body_unreadable", detail });
}
