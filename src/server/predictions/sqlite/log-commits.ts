/** Counts the frames in SQLite's write-ahead log that belong to complete commits, without verifying checksums. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
/** First four bytes of a write-ahead log. The last bit is the byte order of the checksums. */
const MAGIC = 0x377f0682;

/**
 * Counts the committed frames in the write-ahead log. SQLite silently ignores all frames after a wrong checksum: if it
 * reads fewer frames than this count, the disk damaged the log. A kill causes no difference, because the last commit is
 * then complete or has no end mark.
 * @returns 0 without a log; Infinity if the header of the log is damaged
 */
export function committedFrames(databasePath: string): number {
  const file = openedLog(`${databasePath}-wal`);
  if (file === undefined) return 0;
  try {
    return countIn(file);
  } finally {
    closeSync(file);
  }
}

function countIn(file: number): number {
  const { size } = fstatSync(file);
  if (size < HEADER_BYTES) return 0;
  const header = readAt(file, HEADER_BYTES, 0);
  if (!isHeader(header)) return Number.POSITIVE_INFINITY;
  const frameBytes = FRAME_HEADER_BYTES + header.readUInt32BE(8);
  const salts = header.subarray(16, 24);
  let committed = 0;
  for (let frame = 0; HEADER_BYTES + (frame + 1) * frameBytes <= size; frame++) {
    const frameHeader = readAt(file, FRAME_HEADER_BYTES, HEADER_BYTES + frame * frameBytes);
    // A frame with another salt is damaged, or a leftover from before the log was restarted.
    if (!frameHeader.subarray(8, 16).equals(salts)) continue;
    const endsCommit = frameHeader.readUInt32BE(4) !== 0;
    if (endsCommit) committed = frame + 1;
  }
  return committed;
}

function isHeader(header: Buffer): boolean {
  if ((header.readUInt32BE(0) & ~1) >>> 0 !== MAGIC) return false;
  const isBigEndian = (header.readUInt32BE(0) & 1) === 1;
  const sum = new Uint32Array(2);
  for (let at = 0; at < 24; at += 8) {
    const [first, second] = isBigEndian
      ? [header.readUInt32BE(at), header.readUInt32BE(at + 4)]
      : [header.readUInt32LE(at), header.readUInt32LE(at + 4)];
    sum[0] = (sum[0] ?? 0) + first + (sum[1] ?? 0);
    sum[1] = (sum[1] ?? 0) + second + (sum[0] ?? 0);
  }
  return header.readUInt32BE(24) === sum[0] && header.readUInt32BE(28) === sum[1];
}

function openedLog(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch {
    return undefined;
  }
}

function readAt(file: number, bytes: number, position: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  readSync(file, buffer, 0, bytes, position);
  return buffer;
}
