/** The example of the documentation: small files stand for large ones, so that an editor shows the whole input. */

import { decodeDataUrl, isDataUrl } from "../../author/data-url.ts";
import { isObject } from "../../base/json.ts";
import { plainFile } from "./sample.ts";

const MAX_CHARACTERS = 1000;
/** Sides in pixels, tried in this order. */
const sides = [96, 64, 48, 32, 16];

/** @returns the input with smaller pictures, and with short texts for other files */
export async function shortened(value: unknown): Promise<unknown> {
  if (Array.isArray(value)) return Promise.all(value.map(shortened));
  if (isObject(value)) {
    const entries = Object.entries(value).map(async ([key, each]) => [key, await shortened(each)] as const);
    return Object.fromEntries(await Promise.all(entries));
  }
  if (typeof value !== "string" || value.length <= MAX_CHARACTERS || !isDataUrl(value)) return value;
  return /^data:image\//i.test(value) ? smaller(value).catch(() => plainFile) : plainFile;
}

async function smaller(uri: string): Promise<string> {
  const { bytes } = decodeDataUrl(uri, Number.POSITIVE_INFINITY);
  for (const side of sides) {
    const picture = new Bun.Image(bytes).resize(side, side, { fit: "inside", withoutEnlargement: true });
    const text = `data:image/webp;base64,${pixelsOf(await picture.webp({ quality: 60 }).bytes()).toBase64()}`;
    if (text.length <= MAX_CHARACTERS) return text;
  }
  return plainFile;
}

/** A WebP with its pixels alone: a colour profile takes 3 kB. */
function pixelsOf(webp: Uint8Array): Uint8Array {
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
