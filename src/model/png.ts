/**
 * PNG files whose pixels are stored, not compressed: how raw pixels get out of and into `Bun.Image`, which reads and writes only files.
 * Formats: PNG (W3C, third edition), zlib (RFC 1950), deflate (RFC 1951) stored blocks.
 */
import { promisify } from "node:util";
import { deflate } from "node:zlib";
import type { Raster } from "./raster.ts";

const deflateOffThread = promisify(deflate);
const signature = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
const colorTypes = { 1: 0, 3: 2, 4: 6 } as const;
const RGBA = colorTypes[4];

/** Bytes moved between two turns of the event loop: a few milliseconds. */
const BYTES_PER_TURN = 2 ** 24;

/**
 * Reads what `Bun.Image` writes with `png({ compressionLevel: 0 })`: 8-bit RGBA, filter 0, stored blocks. The pixels are put together
 * where they are: `png` is given away.
 */
export async function readStoredPng(png: Uint8Array): Promise<Raster> {
  const view = new DataView(png.buffer, png.byteOffset, png.byteLength);
  const width = view.getUint32(16);
  const height = view.getUint32(20);
  if (png[24] !== 8 || png[25] !== RGBA || png[28] !== 0) throw unexpected();
  const rowBytes = width * 4 + 1;
  const rows = await joinStoredBlocks(await joinDataChunks(png, view));
  if (rows.length !== rowBytes * height) throw unexpected();
  for (let at = 0; at < rows.length; at += rowBytes) if (rows[at] !== 0) throw unexpected();
  return { width, height, bytes: rows, offset: 1, rowBytes, premultiplied: false };
}

/** Writes pixels, row by row and interleaved, as an 8-bit grey, RGB or RGBA PNG with stored blocks. */
export async function writeStoredPng(
  pixels: Uint8Array,
  { width, height, channels }: { width: number; height: number; channels: 1 | 3 | 4 },
): Promise<Uint8Array> {
  const rowBytes = width * channels;
  const rows = new Uint8Array((rowBytes + 1) * height);
  for (let y = 0; y < height; y++) {
    rows.set(pixels.subarray(y * rowBytes, (y + 1) * rowBytes), y * (rowBytes + 1) + 1);
  }
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, 8);
  header.setUint8(9, colorTypes[channels]);
  return Buffer.concat([
    signature,
    chunk("IHDR", new Uint8Array(header.buffer)),
    chunk("IDAT", await deflateOffThread(rows, { level: 0 })),
    chunk("IEND", new Uint8Array(0)),
  ]);
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(data.length + 12);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(type, 4, "latin1");
  bytes.set(data, 8);
  bytes.writeUInt32BE(Bun.hash.crc32(bytes.subarray(4, data.length + 8)), data.length + 8);
  return bytes;
}

/** Moves the content of the IDAT chunks to the front, over what was read. */
async function joinDataChunks(png: Uint8Array, view: DataView): Promise<Uint8Array> {
  let to = 0;
  let turn = BYTES_PER_TURN;
  for (let at = signature.length; at < png.length; ) {
    const length = view.getUint32(at);
    const end = at + length + 12;
    if (view.getUint32(at + 4) === 0x49444154 /* IDAT */) {
      png.copyWithin(to, at + 8, at + 8 + length);
      to += length;
    }
    at = end;
    if (to < turn) continue;
    turn = to + BYTES_PER_TURN;
    await new Promise(setImmediate);
  }
  return png.subarray(0, to);
}

/** After the two bytes of the zlib header, each block is a byte (bit 0: last), its length, the length's complement, its bytes. */
async function joinStoredBlocks(stream: Uint8Array): Promise<Uint8Array> {
  let from = 2;
  let to = 0;
  let turn = BYTES_PER_TURN;
  for (let last = false; !last; ) {
    const header = stream[from] ?? 0xff;
    const length = (stream[from + 1] ?? 0) | ((stream[from + 2] ?? 0) << 8);
    if (header > 1) throw unexpected();
    stream.copyWithin(to, from + 5, from + 5 + length);
    from += 5 + length;
    to += length;
    last = header === 1;
    if (to < turn) continue;
    turn = to + BYTES_PER_TURN;
    await new Promise(setImmediate);
  }
  return stream.subarray(0, to);
}

/** No input leads here, only another version of Bun than this was written for. */
function unexpected(): Error {
  return new Error(
    "Bun.Image wrote a PNG of level 0 in another way than sconce reads; use the Bun version of package.json",
  );
}
