/** Reads a JPEG's markers without decoding (ITU-T T.81, annex B). */
import { Turn } from "../base/turn.ts";
import type { Size } from "./placement.ts";
import { MAX_RECORDS, TooManyRecords } from "./records.ts";

const [SOI, EOI, SOS, TEM, RST0] = [0xd8, 0xd9, 0xda, 0x01, 0xd0];
const [SOF0, SOF2, SOF15, DHT, JPG, DAC, APP1] = [0xc0, 0xc2, 0xcf, 0xc4, 0xc8, 0xcc, 0xe1];
/** Markers that the reader visits before it looks at the clock. */
const MARKERS_AT_ONCE = 16_384;

export interface Jpeg {
  /** Contents of the APP1 segments in front of the first scan, which have metadata. */
  readonly metadata: readonly Buffer[];
  /**
   * Width and height of an ordinary JPEG: baseline, extended or progressive, 8 bits, grey or three colours. Undefined
   * for any other file.
   */
  readonly size: Size | undefined;
  /** Number of scans. Each scan is a pass over the whole picture, and may have as few as 10 bytes. */
  readonly scans: number;
  /** Whether the file has an end marker behind its scans. */
  readonly hasEnd: boolean;
}

/**
 * Walks from marker to marker, as a decoder does. The event loop runs other work after every few milliseconds.
 * @param maxScans the walk ends at the scan after this number
 * @returns undefined for a file that is no JPEG
 * @throws TooManyRecords for too many markers in front of the first scan
 */
export async function readJpeg(file: Buffer, maxScans: number): Promise<Jpeg | undefined> {
  if (file[0] !== 0xff || file[1] !== SOI) return undefined;
  const turn = new Turn();
  const metadata: Buffer[] = [];
  const frames: Buffer[] = [];
  let isPlain = true;
  let scans = 0;
  let hasEnd = false;
  for (let at = 2, count = 1; scans <= maxScans && !hasEnd; count++) {
    at = file.indexOf(0xff, at);
    const marker = at < 0 ? undefined : file[at + 1];
    if (marker === undefined) break;
    if (scans === 0 && count > MAX_RECORDS) throw new TooManyRecords("segments");
    if (count % MARKERS_AT_ONCE === 0 && turn.isOver) await turn.next();
    hasEnd = marker === EOI;
    if (marker === 0xff || isStandalone(marker)) {
      at += marker === 0xff ? 1 : 2;
      continue;
    }
    const end = at + 2 + (((file[at + 2] ?? 0) << 8) | (file[at + 3] ?? 0));
    const content = file.subarray(at + 4, end);
    if (marker === SOS) scans += 1;
    if (scans === 0 && marker === APP1) metadata.push(content);
    if (scans === 0 && isFrame(marker)) {
      frames.push(content);
      isPlain &&= marker <= SOF2;
    }
    at = end;
  }
  const [frame, another] = frames;
  return { metadata, size: isPlain && frame && !another ? plainSize(frame) : undefined, scans, hasEnd };
}

function plainSize(frame: Buffer): Size | undefined {
  if (frame.length < 6) return undefined;
  const [bits, height, width, colours] = [frame[0], frame.readUInt16BE(1), frame.readUInt16BE(3), frame[5]];
  if (bits !== 8 || (colours !== 1 && colours !== 3) || width === 0 || height === 0) return undefined;
  return { width, height };
}

function isFrame(marker: number): boolean {
  return marker >= SOF0 && marker <= SOF15 && marker !== DHT && marker !== JPG && marker !== DAC;
}

/** Whether the marker stands alone, without a length and a segment. A stuffed zero counts as a marker. */
function isStandalone(marker: number): boolean {
  return marker <= TEM || (marker >= RST0 && marker <= EOI);
}
