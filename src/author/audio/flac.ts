/** The number of samples and the last frame of a FLAC file (RFC 9639). */
import { addByte, crc } from "./crc.ts";

/** Position of the number of samples: 4 bits, and 32 bits in the next bytes. */
const TOTAL = 21;
/** Maximum bytes at the end of the file in which to look for the last frame. */
const MAX_TAIL_BYTES = 2 ** 18;
/** Bytes of a tag of ID3v1. */
const ID3V1 = 128;
/** Bytes of the longest header of a frame. */
const MAX_HEADER_BYTES = 16;
const headerCrc = { bits: 8, polynomial: 0x07 } as const;
const frameCrc = { bits: 16, polynomial: 0x8005 } as const;

/** Number of samples of one channel; undefined if the file does not say it. */
export function flacLength(file: Uint8Array): number | undefined {
  if (file.length < TOTAL + 5) return undefined;
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  const total = (view.getUint8(TOTAL) & 15) * 2 ** 32 + view.getUint32(TOTAL + 1);
  return total === 0 ? undefined : total;
}

/** The file without the bytes behind its last frame, such as a tag. Decoders would take them for a part of the frame. */
export function withoutTail(file: Uint8Array): Uint8Array {
  const start = lastFrame(file);
  if (start === undefined) return file;
  let sum = 0;
  let first: number | undefined;
  for (let at = start; at < file.length; at++) {
    sum = addByte(sum, file[at] ?? 0, frameCrc);
    if (sum !== 0 || at < start + MAX_HEADER_BYTES) continue;
    // The checksum is also 0 after one in 65,536 other bytes, so the usual ends come first.
    if (at + 1 === file.length - ID3V1 || at + 1 === file.length) return file.subarray(0, at + 1);
    first ??= at + 1;
  }
  return first === undefined ? file : file.subarray(0, first);
}

function lastFrame(file: Uint8Array): number | undefined {
  for (let at = file.length - 2; at >= Math.max(0, file.length - MAX_TAIL_BYTES); at--) {
    if (file[at] === 0xff && ((file[at + 1] ?? 0) & 0xfe) === 0xf8 && isHeader(file.subarray(at))) return at;
  }
  return undefined;
}

function isHeader(bytes: Uint8Array): boolean {
  const [, , sizes = 0, , number = 0] = bytes;
  const [block, rate] = [sizes >> 4, sizes & 15];
  // The frame's number is coded like a character of UTF-8: the leading 1 bits count its bytes.
  const ones = Math.clz32(~(number << 24));
  const extra = (block === 6 ? 1 : block === 7 ? 2 : 0) + (rate === 12 ? 1 : rate === 13 || rate === 14 ? 2 : 0);
  const length = 4 + Math.max(1, ones) + extra + 1;
  return block !== 0 && rate !== 15 && length <= bytes.length && crc(bytes.subarray(0, length), headerCrc) === 0;
}
