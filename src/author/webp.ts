/**
 * Extracts the first frame of an animated WebP as a still image, because `Bun.Image` cannot decode animations. Format:
 * RFC 9649.
 */
import { MAX_RECORDS, TooManyRecords } from "./records.ts";

const fileHeader = 12;
const chunkHeader = 8;
/** Bytes of the frame header (position, size, duration) before the frame's chunks. */
const frameHeader = 16;
const animationFlag = 0x02;
const alphaFlag = 0x10;

/** The first frame of an animated WebP as a file. Any other file is returned unchanged. @throws TooManyRecords */
export function firstFrame(bytes: Uint8Array): Uint8Array {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const isAnimated = hasTag(file, 0, "RIFF") && hasTag(file, 8, "WEBP") && hasTag(file, 12, "VP8X");
  if (!isAnimated || ((file[20] ?? 0) & animationFlag) === 0) return bytes;
  for (let at = fileHeader, count = 0; at + chunkHeader <= file.length; at = endOfChunk(file, at), count++) {
    if (count === MAX_RECORDS) throw new TooManyRecords("chunks");
    if (!hasTag(file, at, "ANMF")) continue;
    const frame = file.subarray(at + chunkHeader, endOfChunk(file, at));
    return frame.length > frameHeader ? still(frame) : bytes;
  }
  return bytes;
}

function still(frame: Buffer): Uint8Array {
  const images = frame.subarray(frameHeader);
  const extended = Buffer.alloc(chunkHeader + 10);
  extended.write("VP8X", 0, "latin1");
  extended.writeUInt32LE(10, 4);
  extended[chunkHeader] = hasTag(images, 0, "ALPH") ? alphaFlag : 0;
  // The new header gets width and height (three bytes each) from the frame's header.
  frame.copy(extended, chunkHeader + 4, 6, 12);
  const header = Buffer.alloc(fileHeader);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(4 + extended.length + images.length, 4);
  header.write("WEBP", 8, "latin1");
  return Buffer.concat([header, extended, images]);
}

function endOfChunk(file: Buffer, at: number): number {
  const length = file.readUInt32LE(at + 4);
  return at + chunkHeader + length + (length % 2);
}

function hasTag(file: Buffer, at: number, tag: string): boolean {
  return file.length >= at + chunkHeader && file.toString("latin1", at, at + 4) === tag;
}
