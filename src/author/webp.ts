/** Reads the chunks of a WebP, and extracts the first frame of an animation (RFC 9649). */
import type { Canvas } from "./placement.ts";
import { MAX_RECORDS, TooManyRecords } from "./records.ts";

const fileHeader = 12;
const chunkHeader = 8;
/** Bytes of the frame header (position, size, duration) before the frame's chunks. */
const frameHeader = 16;
const flags = { animation: 0x02, xmp: 0x04, exif: 0x08, alpha: 0x10 };

export interface FirstFrame {
  /** The frame as a still image, because `Bun.Image` cannot decode animations. */
  readonly file: Uint8Array;
  readonly canvas: Canvas;
}

interface Chunk {
  readonly tag: string;
  readonly content: Buffer;
}

export function isWebp(file: Buffer): boolean {
  return hasTag(file, 0, "RIFF") && hasTag(file, 8, "WEBP");
}

/** Whether the file says that it has Exif and XMP. */
export function hasMetadata(file: Buffer): { readonly hasExif: boolean; readonly hasXmp: boolean } {
  const given = flagsOf(file);
  return { hasExif: (given & flags.exif) !== 0, hasXmp: (given & flags.xmp) !== 0 };
}

/** The chunks of a WebP. @throws TooManyRecords */
export function* chunksOf(file: Buffer): Generator<Chunk> {
  for (let at = fileHeader, count = 0; at + chunkHeader <= file.length; count++) {
    if (count === MAX_RECORDS) throw new TooManyRecords("chunks");
    const length = file.readUInt32LE(at + 4);
    const begin = at + chunkHeader;
    yield { tag: file.toString("latin1", at, at + 4), content: file.subarray(begin, begin + length) };
    at = begin + length + (length % 2);
  }
}

/** The first frame of an animated WebP; undefined for any other file. @throws TooManyRecords */
export function firstFrame(file: Buffer): FirstFrame | undefined {
  if (!isWebp(file) || (flagsOf(file) & flags.animation) === 0) return undefined;
  for (const { tag, content } of chunksOf(file)) {
    if (tag !== "ANMF" || content.length <= frameHeader) continue;
    const isOpaque = (flagsOf(file) & flags.alpha) === 0;
    const position = { x: 2 * content.readUIntLE(0, 3), y: 2 * content.readUIntLE(3, 3) };
    const size = { width: file.readUIntLE(24, 3) + 1, height: file.readUIntLE(27, 3) + 1 };
    return { file: still(content), canvas: { ...size, ...position, isOpaque } };
  }
  return undefined;
}

function still(frame: Buffer): Uint8Array {
  const images = frame.subarray(frameHeader);
  const extended = Buffer.alloc(chunkHeader + 10);
  extended.write("VP8X", 0, "latin1");
  extended.writeUInt32LE(10, 4);
  extended[chunkHeader] = hasTag(images, 0, "ALPH") ? flags.alpha : 0;
  // The new header gets width and height (three bytes each) from the frame's header.
  frame.copy(extended, chunkHeader + 4, 6, 12);
  const header = Buffer.alloc(fileHeader);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(4 + extended.length + images.length, 4);
  header.write("WEBP", 8, "latin1");
  return Buffer.concat([header, extended, images]);
}

/** The flags of a file with an extended header; 0 for other files. */
function flagsOf(file: Buffer): number {
  return hasTag(file, 12, "VP8X") && file.length >= 30 ? (file[20] ?? 0) : 0;
}

function hasTag(file: Buffer, at: number, tag: string): boolean {
  return file.length >= at + 4 && file.toString("latin1", at, at + 4) === tag;
}
