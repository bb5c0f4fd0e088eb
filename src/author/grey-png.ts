/** Writes PNG files with one channel (grey) or two (grey and alpha) of 8 bits. */
import { promisify } from "node:util";
import { crc32, deflate } from "node:zlib";
import type { Size } from "./placement.ts";

/** Colour types of the PNG specification, by the number of channels. */
const colourTypes = { 1: 0, 2: 4 } as const;

export interface GreyPng extends Size {
  readonly channels: keyof typeof colourTypes;
}

/** Size in bytes of a picture's scanlines. */
export function scanlineBytes({ width, height, channels }: GreyPng): number {
  return height * (1 + width * channels);
}

/** Compresses filtered scanlines on another thread. @returns the file */
export async function greyPng({ width, height, channels }: GreyPng, scanlines: Uint8Array): Promise<Uint8Array> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, colourTypes[channels]], 8);
  const compressed = await promisify(deflate)(scanlines);
  const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  return Buffer.concat([signature, chunk("IHDR", header), chunk("IDAT", compressed), chunk("IEND", Buffer.alloc(0))]);
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
}
