/**
 * Reads the orientation of a picture without decoding: Exif's, otherwise XMP's, as Pillow's `exif_transpose` does.
 * Formats: ITU-T T.81, annex B; PNG (W3C, third edition); RFC 9649; Exif 2.32, 4.6.
 */
import { inflateSync } from "node:zlib";
import type { Jpeg } from "./jpeg.ts";
import { type Orientation, orientations } from "./placement.ts";
import { MAX_RECORDS, TooManyRecords } from "./records.ts";
import { chunksOf, hasMetadata, isWebp } from "./webp.ts";

interface Metadata {
  readonly exif?: Buffer | undefined;
  readonly xmp?: Buffer | undefined;
}

const TIFF = 42;
const ORIENTATION = 0x0112;
/** Exif's types of whole numbers, with their bytes. */
const wholeNumbers: Readonly<Record<number, number>> = { 3: 2, 4: 4, 8: 2, 9: 4 };
const exifMark = Buffer.from("Exif\0\0", "latin1");
const xmpMark = Buffer.from("http://ns.adobe.com/xap/1.0/\0", "latin1");
/** Maximum length of compressed metadata, in bytes. Pillow has the same limit. */
const MAX_TEXT = 2 ** 20;
/** Maximum places in XMP at which to look for the orientation. */
const MAX_PLACES = 100;

/** @param jpeg the file's segments, if it is a JPEG @throws TooManyRecords */
export function orientationOf(file: Buffer, jpeg: Jpeg | undefined): Orientation {
  const { exif, xmp } = jpeg === undefined ? metadataOf(file) : ofJpeg(jpeg);
  return (exif && exifOrientation(exif)) ?? (xmp && xmpOrientation(xmp)) ?? 1;
}

function metadataOf(file: Buffer): Metadata {
  if (file.length >= 8 && file.readUInt32BE(0) === 0x89504e47) return ofPng(file);
  return isWebp(file) ? ofWebp(file) : {};
}

function ofJpeg({ metadata }: Jpeg): Metadata {
  const exif: Buffer[] = [];
  let xmp: Buffer | undefined;
  for (const content of metadata) {
    if (begins(content, exifMark)) exif.push(content.subarray(exifMark.length));
    if (begins(content, xmpMark)) xmp = content.subarray(xmpMark.length);
  }
  return { exif: exif.length === 0 ? undefined : Buffer.concat(exif), xmp };
}

function ofWebp(file: Buffer): Metadata {
  const found = new Map<string, Buffer>();
  for (const { tag, content } of chunksOf(file)) if (!found.has(tag)) found.set(tag, content);
  const { hasExif, hasXmp } = hasMetadata(file);
  return { exif: hasExif ? found.get("EXIF") : undefined, xmp: hasXmp ? found.get("XMP ") : undefined };
}

function ofPng(file: Buffer): Metadata {
  const found = new Map<string, Buffer>();
  for (let at = 8, count = 0; at + 12 <= file.length; count++) {
    if (count === MAX_RECORDS) throw new TooManyRecords("chunks");
    const length = file.readUInt32BE(at);
    const tag = file.toString("latin1", at + 4, at + 8);
    const content = file.subarray(at + 8, at + 8 + length);
    if (tag === "eXIf") found.set(tag, content);
    else if (tag === "iTXt" || tag === "zTXt" || tag === "tEXt") {
      const end = content.subarray(0, 80).indexOf(0);
      if (end > 0) found.set(`${tag} ${content.toString("latin1", 0, end)}`, content.subarray(end + 1));
    }
    at += 12 + length;
  }
  const xmp = found.get("iTXt XML:com.adobe.xmp");
  return { exif: found.get("eXIf") ?? profileOf(found), xmp: xmp && internationalText(xmp) };
}

/** Exif as hexadecimal text with three lines in front, as ImageMagick wrote it before PNG had a chunk for it. */
function profileOf(found: ReadonlyMap<string, Buffer>): Buffer | undefined {
  const name = "Raw profile type exif";
  // A compressed text has its method in front, which is always 0.
  const compressed = found.get(`zTXt ${name}`)?.subarray(1);
  const text = compressed === undefined ? found.get(`tEXt ${name}`) : inflated(compressed);
  return text && Buffer.from(text.toString("latin1").split("\n").slice(3).join(""), "hex");
}

/** The text of an iTXt chunk, behind its compression flag, method, language and translated keyword. */
function internationalText(content: Buffer): Buffer | undefined {
  const language = content.indexOf(0, 2);
  const keyword = content.indexOf(0, language + 1);
  if (language < 0 || keyword < 0) return undefined;
  const text = content.subarray(keyword + 1);
  return content[0] === 0 ? text : inflated(text);
}

/** Undefined for damaged metadata: the picture can be read all the same. */
function inflated(data: Buffer): Buffer | undefined {
  try {
    return inflateSync(data, { maxOutputLength: MAX_TEXT });
  } catch {
    return undefined;
  }
}

/** Undefined without an orientation, and for damaged Exif. */
function exifOrientation(marked: Buffer): Orientation | undefined {
  let exif = marked;
  for (let i = 0; i < 2 && begins(exif, exifMark); i++) exif = exif.subarray(exifMark.length);
  if (exif.length < 8) return undefined;
  const isLittle = exif.readUInt16LE(0) === 0x4949;
  if (!isLittle && exif.readUInt16LE(0) !== 0x4d4d) return undefined;
  const short = (at: number) => (isLittle ? exif.readUInt16LE(at) : exif.readUInt16BE(at));
  const long = (at: number) => (isLittle ? exif.readUInt32LE(at) : exif.readUInt32BE(at));
  const directory = long(4);
  if (short(2) !== TIFF || directory + 2 > exif.length) return undefined;
  for (let at = directory + 2; at < directory + 2 + 12 * short(directory) && at + 12 <= exif.length; at += 12) {
    if (short(at) !== ORIENTATION) continue;
    const size = wholeNumbers[short(at + 2)];
    if (size === undefined) return 1;
    // Values of more than four bytes stand elsewhere.
    const place = size * long(at + 4) <= 4 ? at + 8 : long(at + 8);
    if (place + size > exif.length) return 1;
    return checked(size === 2 ? short(place) : long(place));
  }
  return undefined;
}

function xmpOrientation(xmp: Buffer): Orientation | undefined {
  let at = -1;
  for (let i = 0; i < MAX_PLACES; i++) {
    at = xmp.indexOf("tiff:Orientation", at + 1, "latin1");
    if (at < 0) return undefined;
    const digit = /^(?:="|>)([0-9])/.exec(xmp.toString("latin1", at + 16, at + 19))?.[1];
    if (digit !== undefined) return checked(Number(digit));
  }
  return undefined;
}

/** Other numbers than 1 to 8 leave the picture as it is. */
function checked(value: number): Orientation {
  return orientations.find((each) => each === value) ?? 1;
}

function begins(content: Buffer, mark: Buffer): boolean {
  return content.length >= mark.length && content.compare(mark, 0, mark.length, 0, mark.length) === 0;
}
