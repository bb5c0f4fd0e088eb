/** Pictures as other programs write them: size and pixels are those that Pillow reads (data/pictures.py). */
import { describe, expect, test } from "bun:test";
import { inflateSync } from "node:zlib";
import { z } from "zod";
import { Image } from "../src/author/media.ts";
import { filters } from "../src/author/pixels.ts";
import { failureOf } from "./helpers/failure.ts";

const bytes = z.base64().transform((text) => Uint8Array.fromBase64(text));
const size = z.tuple([z.int(), z.int()]);
const pixels = bytes.transform((packed) => new Uint8Array(inflateSync(packed)));
const fileSchema = z.object({ file: bytes, size: size.optional(), pixels: pixels.optional() });
const resizedSchema = z.object({ file: bytes, name: z.string(), filter: z.enum(filters), size, pixels });
const { files: written, resized } = z
  .object({ files: z.record(z.string(), fileSchema), resized: z.array(resizedSchema) })
  .parse(await Bun.file(new URL("data/pictures.json", import.meta.url)).json());

const imageOf = (file: Uint8Array) => new Image({ bytes: file, mediaType: "application/octet-stream" });
/** The colour of a transparent pixel is not seen. */
const seen = (pixels: Uint8Array) => pixels.map((value, i) => ((pixels[i | 3] ?? 0) === 0 ? 0 : value));

describe.each(["bmp", "gif", "png", "webp", "jpeg"])("%s", (format) => {
  const files = Object.entries(written).filter(([name]) => name.startsWith(`${format} `));

  test.each(files)("%s", async (_, { file, size, pixels }) => {
    if (size === undefined || pixels === undefined) {
      expect((await failureOf(imageOf(file).pixels())).message).toContain("damaged or cut off");
      return;
    }
    const [width, height] = size;
    expect(await imageOf(file).size()).toEqual({ width, height });
    const read = await imageOf(file).pixels({ channels: 4 });
    expect([read.width, read.height]).toEqual([width, height]);
    expect(seen(read.data)).toEqual(seen(pixels));
  });
});

test.each(resized)("$name", async ({ file, filter, size: [width, height], pixels }) => {
  const read = await imageOf(file).pixels({ width, height, filter, channels: 4 });
  expect(seen(read.data)).toEqual(seen(pixels));
});

describe("a variant that is not supported is refused by its name", () => {
  const bmp = (change: (header: DataView) => void) => {
    const file = written["bmp 24 bits, top down False"]?.file.slice() ?? new Uint8Array();
    change(new DataView(file.buffer));
    return imageOf(file);
  };

  test.each([
    ["a BMP of 5 bits a pixel", (header: DataView) => header.setUint16(28, 5, true)],
    ["a BMP that contains a JPEG", (header: DataView) => header.setUint32(30, 4, true)],
    ["a BMP that contains a PNG", (header: DataView) => header.setUint32(30, 5, true)],
    ["a BMP with compression 1 and 24 bits a pixel", (header: DataView) => header.setUint32(30, 1, true)],
    ["a BMP with a header of 200 bytes", (header: DataView) => header.setUint32(14, 200, true)],
  ])("%s", async (variant, change) => {
    expect((await failureOf(bmp(change).pixels())).message).toContain(variant);
    expect((await failureOf(bmp(change).size())).message).toContain(variant);
  });

  test("a GIF of millions of blocks before its picture", async () => {
    const file = new Uint8Array(2 ** 20).fill(1);
    file.set(Buffer.from("GIF89a\x0a\0\x0a\0\0\0\0!\xfe", "latin1"));
    expect((await failureOf(imageOf(file).size())).message).toContain("more than 65,536 blocks");
  });
});
