/**
 * Reads the orientation in a picture's Exif without decoding.
 * Formats: ITU-T T.81, annex B; PNG (W3C, third edition); RFC 9649; Exif 2.32, 4.6.
 */
import type { Jpeg } from "./jpeg.ts";
import { type Orientation, orientations } from "./placement.ts";
import { MAX_RECORDS, TooManyRecords } from "./records.ts";
import { chunksOf, hasExif, isWebp } from "./webp.ts";

const TIFF = 42;
const ORIENTATION = 0x0112;
/** Exif's types of whole numbers, with their bytes. */
const wholeNumbers: Readonly<Record<number, number>> = { 3: 2, 4: 4, 8: 2, 9: 4 };
const exifMark = Buffer.from("Exif\0\0", "latin1");
/** @param jpeg the file's segments, if it is a JPEG @throws TooManyRecords */
export function orientationOf(file: Buffer, jpeg: Jpeg | undefined): Orientation {
  const exif = jpeg === undefined ? exifOf(file) : ofJpeg(jpeg);
  return (exif && exifOrientation(exif)) ?? 1;
}

function exifOf(file: Buffer): Buffer | undefined {
  if (file.length >= 8 && file.readUInt32BE(0) === 0x89504e47) return ofPng(file);
  return isWebp(file) ? ofWebp(file) : undefined;
}

function ofJpeg({ metadata }: Jpeg): Buffer | undefined {
  const exif = metadata.filter((content) => begins(content, exifMark));
  return exif.length === 0 ? undefined : Buffer.concat(exif.map((content) => content.subarray(exifMark.length)));
}

function ofWebp(file: Buffer): Buffer | undefined {
  if (!hasExif(file)) return undefined;
  for (const { tag, content } of chunksOf(file)) if (tag === "EXIF") return content;
  return undefined;
}

function ofPng(file: Buffer): Buffer | undefined {
  let exif: Buffer | undefined;
  for (let at = 8, count = 0; at + 12 <= file.length; count++) {
    if (count === MAX_RECORDS) throw new TooManyRecords("chunks");
    const length = file.readUInt32BE(at);
    if (file.toString("latin1", at + 4, at + 8) === "eXIf") exif = file.subarray(at + 8, at + 8 + length);
    at += 12 + length;
  }
  return exif;
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

/** Other numbers than 1 to 8 leave the picture as it is. */
function checked(value: number): Orientation {
  return orientations.find((each) => each === value) ?? 1;
}

function begins(content: Buffer, mark: Buffer): boolean {
  return content.length >= mark.length && content.compare(mark, 0, mark.length, 0, mark.length) === 0;
}
