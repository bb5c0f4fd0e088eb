/** Converts a form (RFC 7578) to a JSON list with one input. */
import { isDataUrl } from "../../author/data-url.ts";
import { isEssence, mediaTypeOf } from "../../author/media-type.ts";
import { type FormPart, partsOf } from "../../base/multipart.ts";
import type { SchemaNode } from "../../base/schemas/json-schema.ts";
import { Turn } from "../../base/turn.ts";
import { type Body, LARGE_BYTES } from "./body.ts";
import { anything, hasOnlyDataUrls, takes } from "./expected-kinds.ts";
import { inputsInvalid, utf8 } from "./input-decoder.ts";

/** Bytes of a file that one step encodes as base64. A multiple of 3, so that only the last step adds padding. */
const SLICE_BYTES = 3 * 2 ** 18;

/** Maximum characters of a text that `isJson` parses. */
const MAX_PARSED = 1024;

/** Maximum number of parts. Even empty parts above this number would take seconds. */
const MAX_PARTS = 10_000;

interface FormFile {
  readonly bytes: Uint8Array;
  readonly mediaType: string;
  /** Browsers send a Blob of JSON as a file. */
  readonly isJson: boolean;
}

/** The value of a part: a text or a file. */
type Value = string | FormFile;
/** JSON of an input, in which each file stands for its data URL. */
type Pieces = readonly Value[];

/**
 * Converts a form to JSON. The name of a part is a field of the input; parts with the same name are a list. An input that is no object is one part of any
 * name. A file becomes a data URL; a JSON file becomes JSON where the schema takes no text. For other parts, the schema decides between a JSON string and
 * JSON. A file field that the user left empty is absent.
 *
 * @param expected the kinds of JSON values that an input accepts
 * @throws SconceError `body_invalid` or `inputs_invalid`; SyntaxError for bytes that are no form
 */
export async function inputsOfForm(
  chunks: readonly Uint8Array<ArrayBuffer>[],
  boundary: string,
  expected: SchemaNode,
): Promise<Body> {
  const bytes = Bun.concatArrayBuffers([...chunks], Infinity, true);
  const turn = new Turn();
  const fields = new Map<string, Value[]>();
  let count = 0;
  for (const part of partsOf(bytes, boundary)) {
    if (++count > MAX_PARTS)
      throw inputsInvalid([{ pointer: "", detail: `a form may have at most ${MAX_PARTS} parts` }]);
    addPart(fields, part);
    if (turn.isOver) await turn.next();
  }
  return bodyOf(["[", ...inputOf(fields, expected), "]"], turn);
}

function addPart(fields: Map<string, Value[]>, part: FormPart): void {
  // Some clients write `names[]` for the elements of a list.
  const field = part.name.replace(/\[\]$/, "");
  if (field === "") throw inputsInvalid([{ pointer: "", detail: `a part has the name ${JSON.stringify(part.name)}` }]);
  const values = fields.get(field) ?? [];
  const isLeftEmpty = part.filename === "" && part.bytes.length === 0;
  if (!isLeftEmpty) values.push(valueIn(part));
  fields.set(field, values);
}

function valueIn({ filename, type, bytes }: FormPart): Value {
  const { essence, parameters } = mediaTypeOf(type);
  const isJson = /^application\/(.+\+)?json$/.test(essence);
  const isText = essence === "" || essence.startsWith("text/") || isJson;
  if (isText && filename === undefined) return utf8(bytes);
  return { bytes, mediaType: isEssence(essence) ? `${essence}${parameters}` : "application/octet-stream", isJson };
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
  const values = parts.map((value) =>
    typeof value !== "string" && value.isJson && !isText ? utf8(value.bytes) : value,
  );
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
