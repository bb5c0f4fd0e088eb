/** Shortens the example of the OpenAPI document. */
import { decodeDataUrl, isDataUrl } from "../../author/data-url.ts";
import { isObject } from "../../base/json.ts";

const plainFile = "data:text/plain;base64,c2NvbmNl";
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
