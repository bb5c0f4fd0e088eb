/** From a form with files to the JSON list of inputs that it stands for: what is kept and sent on is one kind of body. */

import { isDataUrl } from "../../author/data-url.ts";
import type { SconceError } from "../../base/errors.ts";
import { pointerTo } from "../../base/json.ts";
import { type Body, LARGE_BYTES } from "../inputs/bodies.ts";
import { anything, type Expected } from "../inputs/expected-kinds.ts";
import { unfit, utf8 } from "../inputs/input-decoder.ts";
import { type FilePart, formTooLarge, type Part, partsOf } from "./form-parts.ts";

const MAX_LEVELS = 32;
/** Of all inputs together: three for each of the parts that a form may have. */
const MAX_PLACES = 30_000;
/** Measured 350, with the list and the map of each. */
const PLACE_BYTES = 400;
/** Longest time that the event loop waits for a form. */
const MAX_HOLD_MS = 2;
/** Bytes of a file that are made text in one turn of the loop: without a remainder in base64. */
const SLICE_BYTES = 3 * 2 ** 18;

type Value = Part["value"];

/** A place of an input: the values there, and the places within by name. */
interface Place {
  readonly values: Value[];
  readonly within: Map<string, Place>;
}

/** The places of a form, from its root. */
class Places {
  readonly root: Place = { values: [], within: new Map() };
  readonly #take: (bytes: number) => void;
  #count = 0;

  constructor(take: (bytes: number) => void) {
    this.#take = take;
  }

  /** @throws ProblemError 413; what `take` throws */
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

/** Lets the event loop turn where a form has held it for long enough. */
class Turn {
  #begunMs = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#begunMs > MAX_HOLD_MS;
  }

  async next(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#begunMs = performance.now();
  }
}

/**
 * A part's name is the way to its place: `image`, `box.0` or `note[text]`; where all begin with numbers these are the inputs. A text is
 * what the schema has there, a file is a data URL.
 *
 * @param expected of one input
 * @param take counts memory beside that of the body, which is free again at the end
 * @throws SconceError `body_invalid` or `inputs_invalid`; ProblemError 413; what `take` throws
 */
export async function inputsOfForm(
  chunks: readonly Uint8Array<ArrayBuffer>[],
  boundary: string,
  expected: Expected,
  take: (bytes: number) => void = () => {},
): Promise<Body> {
  const bytes = Bun.concatArrayBuffers([...chunks], Infinity, true);
  const turn = new Turn();
  const places = new Places(take);
  for (const { name, value } of partsOf(bytes, boundary)) {
    const names = name.split(/[.[\]]+/).filter((each) => each !== "");
    if (names.length === 0 || names.length > MAX_LEVELS)
      throw misplaced([], `a part has the name ${JSON.stringify(name.slice(0, 100))}`);
    places.add(names, value);
    if (turn.isOver) await turn.next();
  }
  const { root } = places;
  const hasSeveral = [...root.within.keys()].every((name) => /^\d+$/.test(name));
  const several = { kinds: new Set(["array"] as const), items: expected };
  return bodyOf(hasSeveral ? jsonOf(root, several, []) : inList(jsonOf(root, expected, ["0"])), turn);
}

type Pieces = Generator<Value>;

function* inList(pieces: Pieces): Pieces {
  yield "[";
  yield* pieces;
  yield "]";
}

/** JSON, in which a file stands for the text of its data URL. */
function* jsonOf(place: Place, expected: Expected, path: readonly string[]): Pieces {
  const { within } = place;
  const { kinds } = expected;
  const isText = takesText(expected) || (kinds.has("array") && takesText(elementOf(expected, 0)));
  const values = place.values.map((value) => (isJsonFile(value) && !isText ? utf8(value.bytes) : value));
  const [first] = values;
  if (within.size === 0 && first !== undefined) {
    const isNull = first === "null" && kinds.has("null") && !takesText(elementOf(expected, 0));
    const isElement = kinds.has("array") && !isString(first, expected) && !isJsonList(first) && !isNull;
    if (values.length === 1 && !isElement) yield* valueJson(first, expected);
    else yield* inList(listed(values.map((value, i) => valueJson(value, elementOf(expected, i)))));
    return;
  }
  if (values.length > 0) throw misplaced(path, "parts lie both at this place and in it");
  if (kinds.has("array") && !kinds.has("object")) {
    const elements = [...within].sort(([a], [b]) => Number(a) - Number(b));
    if (elements.some(([name], i) => name !== String(i)))
      throw misplaced(path, "expected parts numbered from 0, each once");
    yield* inList(
      listed(elements.map(([name, element], i) => jsonOf(element, elementOf(expected, i), [...path, name]))),
    );
    return;
  }
  yield "{";
  let comma = "";
  for (const [name, field] of within) {
    yield `${comma}${JSON.stringify(name)}:`;
    yield* jsonOf(field, expected.fields?.get(name) ?? expected.others ?? anything, [...path, name]);
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

function elementOf({ items = anything, first = [] }: Expected, index: number): Expected {
  return first[index] ?? items;
}

/** A text that is no JSON where something else than text is expected is one that the schema refuses. */
function* valueJson(value: Value, expected: Expected): Pieces {
  if (typeof value !== "string") yield value;
  else yield takesText(expected) || !isJson(value) ? JSON.stringify(value) : value;
}

/** Whether a text is taken as it is, whatever it says. */
function takesText({ kinds, hasOnlyDataUrls = false }: Expected): boolean {
  return kinds.has("string") && !hasOnlyDataUrls;
}

/** Whether the value alone is one of the strings that are taken; a file stands for its data URL. */
function isString(value: Value, { kinds, hasOnlyDataUrls = false }: Expected): boolean {
  return kinds.has("string") && (!hasOnlyDataUrls || typeof value !== "string" || isDataUrl(value));
}

/** As browsers send JSON with its type. */
function isJsonFile(value: Value): value is FilePart {
  return typeof value !== "string" && value.isJson;
}

/** A large text is taken for JSON unseen: the whole body is parsed beside the JS thread, and its parser says what is wrong. */
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

/** As one text where it is short. */
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
  return unfit([{ pointer: pointerTo(path), detail }]);
}
