/** Runs (demo predictions) that this browser started or opened by a link, in its localStorage. */
import type { Run } from "./api.ts";
import { fileIn, mediaTypeOf, pictureIn, plainIn, sizeOf, sizeText, type Value } from "./value.ts";

export interface Entry {
  readonly id: string;
  readonly at: string;
  readonly status: Run["status"];
  readonly summary: string;
  /** A small picture of the input or output, as a data URI. */
  readonly thumbnail?: string | undefined;
  /** Undefined if the inputs are unknown, or too large to store. */
  readonly inputs?: readonly Value[];
}

const MAX_ENTRIES = 30;
/** Maximum characters of stored inputs. Browsers store about 5 MB per site. */
const MAX_INPUT_LENGTH = 100_000;

export function readHistory(model: string): readonly Entry[] {
  try {
    const entries: unknown = JSON.parse(localStorage.getItem(keyOf(model)) ?? "[]");
    return Array.isArray(entries) ? entries.filter(isEntry) : [];
  } catch {
    return [];
  }
}

/** Adds a run as the first entry, or updates its entry. */
export function withRun(entries: readonly Entry[], run: Run, inputs: readonly Value[] | undefined): readonly Entry[] {
  const known = entries.find(({ id }) => id === run.demo_id);
  const text = JSON.stringify(inputs ?? []);
  const entry: Entry = {
    ...(known?.thumbnail === undefined ? {} : { thumbnail: known.thumbnail }),
    id: run.demo_id,
    at: run.created_at,
    status: run.status,
    summary: inputs === undefined && known !== undefined ? known.summary : summaryOf(inputs ?? [], run),
    ...(inputs !== undefined && text.length <= MAX_INPUT_LENGTH
      ? { inputs }
      : known?.inputs && { inputs: known.inputs }),
  };
  if (known !== undefined) return entries.map((each) => (each === known ? entry : each));
  return [entry, ...entries].slice(0, MAX_ENTRIES);
}

export function withThumbnail(entries: readonly Entry[], id: string, thumbnail: string): readonly Entry[] {
  return entries.map((entry) => (entry.id === id ? { ...entry, thumbnail } : entry));
}

export function writeHistory(model: string, entries: readonly Entry[]): void {
  try {
    if (entries.length === 0) localStorage.removeItem(keyOf(model));
    else localStorage.setItem(keyOf(model), JSON.stringify(entries));
  } catch {
    // The browser may forbid localStorage. The list then lasts until the page is closed.
  }
}

function keyOf(model: string): string {
  return `sconce:${model}`;
}

function isEntry(value: unknown): value is Entry {
  return (
    typeof value === "object" &&
    value !== null &&
    "id" in value &&
    "at" in value &&
    "status" in value &&
    "summary" in value
  );
}

/** Identifies a run in the list: a text or number of its first input, else of its first output, else the type and size of its file. */
function summaryOf(inputs: readonly Value[], { outputs = [] }: Run): string {
  const more = inputs.length > 1 ? ` and ${inputs.length - 1} more` : "";
  const shown = plainIn(inputs[0]) ?? plainIn(outputs[0]);
  if (shown !== undefined) return `${shown.slice(0, 80)}${more}`;
  const file = fileIn(inputs[0]);
  return file === undefined ? "Input" : `${mediaTypeOf(file)}, ${sizeText(sizeOf(file))}${more}`;
}

/** Width and height in pixels. */
const THUMBNAIL_SIDE = 96;

/**
 * A small copy of the first picture in the values of a run. Undefined if this is no data URI: a page may not read pixels of pictures from other
 * sites.
 */
export async function thumbnailOf(values: readonly Value[]): Promise<string | undefined> {
  const url = pictureIn(values.filter((value) => value !== undefined));
  if (url === undefined || !url.startsWith("data:")) return undefined;
  const picture = new Image();
  picture.src = url;
  try {
    await picture.decode();
  } catch {
    return undefined;
  }
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [THUMBNAIL_SIDE, THUMBNAIL_SIDE];
  const { naturalWidth: width, naturalHeight: height } = picture;
  const scale = THUMBNAIL_SIDE / Math.min(width, height);
  const context = canvas.getContext("2d");
  context?.drawImage(
    picture,
    (THUMBNAIL_SIDE - width * scale) / 2,
    (THUMBNAIL_SIDE - height * scale) / 2,
    width * scale,
    height * scale,
  );
  return canvas.toDataURL("image/webp", 0.7);
}
