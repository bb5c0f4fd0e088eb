/** Makes small picture files that are expensive to decode. */
import { deflateSync } from "node:zlib";
import { readJpeg } from "../../src/author/jpeg.ts";

/**
 * Repeats the last scan of a JPEG until the file has `count` scans, then inserts `beforeEnd` in front of the end
 * marker.
 */
export async function withScans(
  jpeg: Uint8Array,
  count: number,
  beforeEnd: Uint8Array = new Uint8Array(0),
): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.from(jpeg);
  const end = bytes.lastIndexOf("ffd9", bytes.length, "hex");
  const last = bytes.subarray(bytes.lastIndexOf("ffda", bytes.length, "hex"), end);
  const more = Array<Uint8Array>(count - ((await readJpeg(bytes, 1000))?.scans ?? 0)).fill(last);
  return Buffer.concat([bytes.subarray(0, end), ...more, beforeEnd, bytes.subarray(end)]);
}

/** A PNG of two colours, one of them translucent. The file has a few kB at any size. */
export function palettePng(width: number, height: number): Buffer<ArrayBuffer> {
  const chunk = (type: string, data: Uint8Array) => {
    const bytes = Buffer.alloc(data.length + 12);
    bytes.writeUInt32BE(data.length, 0);
    bytes.write(type, 4, "latin1");
    bytes.set(data, 8);
    bytes.writeUInt32BE(Bun.hash.crc32(bytes.subarray(4, -4)), data.length + 8);
    return bytes;
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([1, 3], 8);
  const rows = Buffer.alloc((Math.ceil(width / 8) + 1) * height);
  return Buffer.concat([
    Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
    chunk("IHDR", header),
    chunk("PLTE", Uint8Array.of(255, 0, 0, 0, 255, 0)),
    chunk("tRNS", Uint8Array.of(128, 255)),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", new Uint8Array(0)),
  ]);
}
