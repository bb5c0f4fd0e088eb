/** Shortens the example of the OpenAPI document. */
import { decodeDataUrl, isDataUrl } from "../../author/data-url.ts";
import { isObject } from "../../base/json.ts";

const plainFile = "data:text/plain;base64,c2NvbmNl";
const MAX_EXAMPLE_CHARACTERS = 1000;
/** Maximum width and height in pixels of a picture in an example. */
const MAX_SIDE = 48;

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
  const picture = new Bun.Image(bytes).resize(MAX_SIDE, MAX_SIDE, { fit: "inside", withoutEnlargement: true });
  return `data:image/webp;base64,${(await picture.webp({ quality: 60 }).bytes()).toBase64()}`;
}
