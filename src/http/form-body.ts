/** Converts a form (RFC 7578) to a JSON list of inputs. */
import { isDataUrl } from "../author/data-url.ts";
import { isEssence, mediaTypeOf } from "../author/media-type.ts";
import type { SconceError } from "../base/errors.ts";
import { pointerTo } from "../base/json.ts";
import type { SchemaNode } from "../base/schemas/json-schema.ts";
import { Turn } from "../base/turn.ts";
import { type Body, LARGE_BYTES } from "../pipeline/inputs/body.ts";
import { anything, hasOnlyDataUrls, takes } from "../pipeline/inputs/expected-kinds.ts";
import { inputsInvalid, utf8 } from "../pipeline/inputs/input-decoder.ts";
import { ProblemError } from "./problem.ts";

/** Maximum depth of a part's name: `box.0` has depth 2. */
const MAX_LEVELS = 32;
/** Maximum number of different fields and list elements that the part names of one form address. */
const MAX_PLACES = 30_000;
/** Bytes of memory of one field or list element in the tree of a form; 350 were measured. */
const PLACE_BYTES = 400;
/** Bytes of a file that one step encodes as base64. A multiple of 3, so that only the last step adds padding. */
const SLICE_BYTES = 3 * 2 ** 18;

type Value = Part["value"];

/** A field or list element that part names address, such as `box.0`. `within` has the fields or elements inside it, by name. */
interface Place {
  readonly values: Value[];
  readonly within: Map<string, Place>;
}

/** The tree of all fields and elements that the part names of a form address. */
class Places {
  readonly root: Place = { values: [], within: new Map() };
  readonly #take: (bytes: number) => void;
  #count = 0;

  constructor(take: (bytes: number) => void) {
    this.#take = take;
  }

  /**
   * Adds a value at the path `names`.
   * @throws ProblemError 413 for too many fields; the error of the constructor's `take`
   */
  add(names: readonly string[], value: Value): void {
    let place = this.root;
    for (const name of names) {
      const known = place.within.get(name);
      const next = known ?? this.#made();
      if (known === undefined) place.within.set(name, next);
      place = next;
    }
    place.values.push(value);
  }

  #made(): Place {
    if (++this.#count > MAX_PLACES) throw formTooLarge(`${MAX_PLACES} different places in the names of its parts`);
    this.#take(PLACE_BYTES);
    return { values: [], within: new Map() };
  }
}

/**
 * Converts a form to JSON. The name of a part is its path in the input: `image`, `box.0` or `note[text]`. If all names begin with numbers, the form
 * has several inputs, and the numbers are their indices. A file becomes a data URL; a JSON file becomes JSON where the schema takes no text. For
 * other parts, the schema decides between a JSON string and JSON. A file field that the user left empty is absent.
 *
 * @param expected the kinds of JSON values that one input accepts
 * @param take called with bytes of memory that the conversion needs until it ends; throws if none is free
 * @throws SconceError `body_invalid` or `inputs_invalid`; ProblemError 400 or 413; the error of `take`
 */
export async function inputsOfForm(
  chunks: readonly Uint8Array<ArrayBuffer>[],
  boundary: string,
  expected: SchemaNode,
  take: (bytes: number) => void = () => {},
): Promise<Body> {
  const bytes = Bun.concatArrayBuffers([...chunks], Infinity, true);
  const turn = new Turn();
  const places = new Places(take);
  let isLeftEmpty = false;
  for (const { name, value } of partsOf(bytes, boundary)) {
    if (typeof value !== "string" && value.isLeftEmpty) {
      isLeftEmpty = true;
      continue;
    }
    const names = name.split(/[.[\]]+/).filter((each) => each !== "");
    if (names.length === 0 || names.length > MAX_LEVELS)
      throw misplaced([], `a part has the name ${JSON.stringify(name.slice(0, 100))}`);
    places.add(names, value);
    if (turn.isOver) await turn.next();
  }
  const { root } = places;
  // A form whose only fields were left empty is one input without fields.
  const hasSeveral =
    !(isLeftEmpty && root.within.size === 0) && [...root.within.keys()].every((name) => /^\d+$/.test(name));
  return bodyOf(hasSeveral ? numbered(root, () => expected, []) : inList(jsonOf(root, expected, ["0"])), turn);
}

type Pieces = Generator<Value>;

function* inList(pieces: Pieces): Pieces {
  yield "[";
  yield* pieces;
  yield "]";
}

/** Yields an input as pieces of JSON text and files. bodyOf() replaces the files by data URLs. */
function* jsonOf(place: Place, expected: SchemaNode, path: readonly string[]): Pieces {
  const { within } = place;
  const isList = takes(expected, "array");
  const isText = takesText(expected) || (isList && takesText(expected.element(0)));
  const values = place.values.map((value) => (isJsonFile(value) && !isText ? utf8(value.bytes) : value));
  const [first] = values;
  if (within.size === 0 && first !== undefined) {
    const isNull = first === "null" && takes(expected, "null") && !takesText(expected.element(0));
    const isElement = isList && !isString(first, expected) && !isJsonList(first) && !isNull;
    if (values.length === 1 && !isElement) yield* valueJson(first, expected);
    else yield* inList(listed(values.map((value, i) => valueJson(value, expected.element(i)))));
    return;
  }
  if (values.length > 0) throw misplaced(path, "parts lie both at this place and in it");
  if (isList && !takes(expected, "object")) {
    yield* numbered(place, (index) => expected.element(index), path);
    return;
  }
  yield "{";
  let comma = "";
  for (const [name, field] of within) {
    yield `${comma}${JSON.stringify(name)}:`;
    yield* jsonOf(field, expected.field(name) ?? anything, [...path, name]);
    comma = ",";
  }
  yield "}";
}

function* listed(all: readonly Pieces[]): Pieces {
  for (const [i, pieces] of all.entries()) {
    if (i > 0) yield ",";
    yield* pieces;
  }
}

/** Yields the elements of a list, whose parts are numbered. */
function* numbered({ within }: Place, schemaOf: (index: number) => SchemaNode, path: readonly string[]): Pieces {
  const elements = [...within].sort(([a], [b]) => Number(a) - Number(b));
  if (elements.some(([name], i) => name !== String(i)))
    throw misplaced(path, "expected parts numbered from 0, each once");
  yield* inList(listed(elements.map(([name, element], i) => jsonOf(element, schemaOf(i), [...path, name]))));
}

/**
 * Yields the value of a part. Text becomes a JSON string if the schema takes text, or if the text is not JSON: validation then refuses the string
 * with a clear message.
 */
function* valueJson(value: Value, expected: SchemaNode): Pieces {
  if (typeof value !== "string") yield value;
  else yield takesText(expected) || !isJson(value) ? JSON.stringify(value) : value;
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

/** Whether the text is JSON. Returns true for a large text without parsing it, which would block the event loop. */
function isJson(text: string): boolean {
  if (text.length > LARGE_BYTES) return true;
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

function misplaced(path: readonly string[], detail: string): SconceError {
  return inputsInvalid([{ pointer: pointerTo(path), detail }]);
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
    if (++count > MAX_PARTS) throw formTooLarge(`${MAX_PARTS} parts`);
    yield partOf(body.toString("utf8", at, blank), bytes.subarray(blank + 4, Math.max(blank + 4, end)));
    at = end + delimiter.length;
  }
}

function formTooLarge(limit: string): ProblemError {
  return new ProblemError({ code: "body_too_large", detail: `a form may have at most ${limit}` });
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
