/** What a JPEG's markers tell before it is decoded (ITU-T T.81, annex B). */

const [SOI, EOI, SOS, TEM, RST0, RST7] = [0xd8, 0xd9, 0xda, 0x01, 0xd0, 0xd7];

/** Whether there is an end marker. Looked for after the start of the scan: an embedded thumbnail has one of its own. */
export function hasEnd(jpeg: Uint8Array): boolean {
  return bufferOf(jpeg).indexOf("ffd9", firstScan(jpeg), "hex") >= 0;
}

/**
 * How many scans there are, up to `max` and one more. Every scan is a pass over the whole picture, and may have as little as 10 bytes.
 */
export function countScans(jpeg: Uint8Array, max: number): number {
  const begin = firstScan(jpeg);
  // The exact walk is for few files alone: pictures behind the end, and thumbnails, have such bytes too.
  const all = bufferOf(jpeg);
  let candidates = 0;
  for (let at = all.indexOf("ffda", begin, "hex"); at >= 0; at = all.indexOf("ffda", at + 2, "hex")) {
    candidates += 1;
    if (candidates > max) return walkScans(jpeg, begin, max);
  }
  return candidates;
}

/** Goes from marker to marker as a decoder does: what is no marker is passed over, and what a segment holds too. */
function walkScans(jpeg: Uint8Array, begin: number, max: number): number {
  let scans = 0;
  for (let at = begin; at + 1 < jpeg.length && scans <= max; ) {
    const marker = jpeg[at + 1] ?? 0;
    if (jpeg[at] !== 0xff || marker === 0xff) at += 1;
    else if (marker === 0 || marker === TEM || marker === SOI || (marker >= RST0 && marker <= RST7)) at += 2;
    else if (marker === EOI) break;
    else {
      if (marker === SOS) scans += 1;
      at = endOfSegment(jpeg, at);
    }
  }
  return scans;
}

/** Where the first scan begins; where the segments end if there is none. */
function firstScan(jpeg: Uint8Array): number {
  let at = 2;
  while (at + 4 <= jpeg.length && jpeg[at] === 0xff) {
    const marker = jpeg[at + 1] ?? 0;
    if (marker === SOS) break;
    at = marker === 0xff ? at + 1 : endOfSegment(jpeg, at);
  }
  return at;
}

function endOfSegment(jpeg: Uint8Array, at: number): number {
  return at + 2 + (((jpeg[at + 2] ?? 0) << 8) | (jpeg[at + 3] ?? 0));
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}
