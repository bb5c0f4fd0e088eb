/** Reads a JPEG's markers without decoding (ITU-T T.81, annex B). */
import { Turn } from "../base/turn.ts";
import type { Size } from "./placement.ts";
import { MAX_RECORDS, TooManyRecords } from "./records.ts";

const [SOI, EOI, SOS, TEM, RST0] = [0xd8, 0xd9, 0xda, 0x01, 0xd0];
const [SOF0, SOF2, SOF15, DHT, JPG, DAC, APP1] = [0xc0, 0xc2, 0xcf, 0xc4, 0xc8, 0xcc, 0xe1];
/** Bytes and markers that `walkScans` visits before it looks at the clock. */
const STEPS_AT_ONCE = 65_536;

/** The part of a JPEG in front of its first scan. */
export interface JpegHeader {
  /** Contents of the APP1 segments, which have metadata. */
  readonly metadata: readonly Uint8Array[];
  /**
   * Width and height of an ordinary JPEG: baseline, extended or progressive, 8 bits, grey or three colours. Undefined
   * for any other file.
   */
  readonly size: Size | undefined;
  /** Position of the first scan, or of a byte that is no marker. */
  readonly scansAt: number;
}

/** Reads the header of a JPEG. @returns undefined for any other file @throws TooManyRecords */
export function jpegHeader(file: Uint8Array): JpegHeader | undefined {
  if (!isJpeg(file)) return undefined;
  const jpeg = bufferOf(file);
  const metadata: Buffer[] = [];
  const frames: Buffer[] = [];
  let isPlain = true;
  let at = 2;
  for (let count = 0; at + 4 <= jpeg.length && jpeg[at] === 0xff; count++) {
    if (count === MAX_RECORDS) throw new TooManyRecords("segments");
    const marker = jpeg[at + 1] ?? 0;
    if (marker === SOS || marker === EOI) break;
    if (marker === 0xff || isStandalone(marker)) {
      at += marker === 0xff ? 1 : 2;
      continue;
    }
    const end = endOfSegment(jpeg, at);
    const content = jpeg.subarray(at + 4, end);
    if (marker === APP1) metadata.push(content);
    if (marker >= SOF0 && marker <= SOF15 && marker !== DHT && marker !== JPG && marker !== DAC) {
      frames.push(content);
      isPlain &&= marker <= SOF2;
    }
    at = end;
  }
  const [frame, another] = frames;
  return { metadata, size: isPlain && frame && !another ? plainSize(frame) : undefined, scansAt: at };
}

function plainSize(frame: Buffer): Size | undefined {
  if (frame.length < 6) return undefined;
  const [bits, height, width, colours] = [frame[0], frame.readUInt16BE(1), frame.readUInt16BE(3), frame[5]];
  if (bits !== 8 || (colours !== 1 && colours !== 3) || width === 0 || height === 0) return undefined;
  return { width, height };
}

function isJpeg(file: Uint8Array): boolean {
  return file[0] === 0xff && file[1] === SOI;
}

/**
 * Whether the file has an end marker. The search starts at the first scan, because an embedded thumbnail has an end
 * marker too.
 */
export function hasEnd(jpeg: Uint8Array, { scansAt }: JpegHeader): boolean {
  return bufferOf(jpeg).indexOf("ffd9", scansAt, "hex") >= 0;
}

/**
 * Number of scans, counted up to `max + 1`. Each scan is a pass over the whole picture, and may have as few as 10
 * bytes.
 */
export async function countScans(jpeg: Uint8Array, max: number, header = jpegHeader(jpeg)): Promise<number> {
  const scansAt = header?.scansAt ?? 0;
  // The fast byte search counts too many: thumbnails and data after the end also contain these bytes. The exact walk
  // runs only if the search finds more than `max`.
  const all = bufferOf(jpeg);
  let candidates = 0;
  for (let at = all.indexOf("ffda", scansAt, "hex"); at >= 0; at = all.indexOf("ffda", at + 2, "hex")) {
    candidates += 1;
    if (candidates > max) return walkScans(jpeg, scansAt, max);
  }
  return candidates;
}

/**
 * Counts scans exactly, from marker to marker, as a decoder reads the file. The event loop runs other work after every
 * few milliseconds.
 */
async function walkScans(jpeg: Uint8Array, begin: number, max: number): Promise<number> {
  const turn = new Turn();
  let scans = 0;
  let steps = 0;
  for (let at = begin; at + 1 < jpeg.length && scans <= max; ) {
    steps += 1;
    if (steps % STEPS_AT_ONCE === 0 && turn.isOver) await turn.next();
    const marker = jpeg[at + 1] ?? 0;
    if (jpeg[at] !== 0xff || marker === 0xff) at += 1;
    else if (marker === EOI) break;
    else if (isStandalone(marker)) at += 2;
    else {
      if (marker === SOS) scans += 1;
      at = endOfSegment(jpeg, at);
    }
  }
  return scans;
}

/** Whether the marker stands alone, without a length and a segment. */
function isStandalone(marker: number): boolean {
  return marker <= TEM || (marker >= RST0 && marker <= EOI);
}

function endOfSegment(jpeg: Uint8Array, at: number): number {
  return at + 2 + (((jpeg[at + 2] ?? 0) << 8) | (jpeg[at + 3] ?? 0));
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}
