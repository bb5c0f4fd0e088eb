import { describe, expect, test } from "bun:test";
import { inflateSync } from "node:zlib";
import fc from "fast-check";
import { Image, type NormalizedOptions, type PixelOptions } from "../src/author/media.ts";
import { failureOf } from "./helpers/failure.ts";
import { greatestDifference } from "./helpers/tensors.ts";

const folder = new URL("./data/media/", import.meta.url);

/** A line of expected.jsonl, which test/data/media.py writes: options, and the pixels that Pillow gives. */
interface Case {
  file: string;
  options: PixelOptions;
  width: number;
  height: number;
  /** The pixels, as a zlib stream in base64. */
  data: string;
}

const lines = (await Bun.file(new URL("expected.jsonl", folder)).text()).trimEnd().split("\n");
const cases = lines.map((line): Case => JSON.parse(line));

const read = (name: string) => Bun.file(new URL(name, folder)).bytes();

async function open(name: string): Promise<Image> {
  return new Image({ bytes: await read(name), mediaType: "application/octet-stream" });
}

describe("pixels equal Pillow's, or differ by 1 of 255 where transparency is resampled", () => {
  for (const { file, options, width, height, data } of cases) {
    test(`${file} ${JSON.stringify(options)}`, async () => {
      const pixels = await (await open(file)).pixels(options);
      expect([pixels.width, pixels.height]).toEqual([width, height]);
      const expected = inflateSync(Buffer.from(data, "base64"));
      expect(greatestDifference(pixels.data, expected)).toBeLessThanOrEqual(/^(alpha|palette)/.test(file) ? 1 : 0);
    });
  }
});

/**
 * Decodes a picture with `Bun.Image` and with sconce. Each result has size and a hash of the pixels, or says why
 * there are none.
 */
async function decodings(bytes: Uint8Array): Promise<{ theirs: unknown; ours: unknown }> {
  const pixels = (file: Uint8Array) => new Image({ bytes: file, mediaType: "image/png" }).pixels();
  const outcome = (made: Promise<{ data: Uint8Array; width: number; height: number }>) =>
    made
      .then(({ data, width, height }) => [width, height, Bun.hash(data)])
      .catch(({ code }) => (code === "file_too_large" ? "too large" : "no picture"));
  const png = () => new Bun.Image(bytes).png({ compressionLevel: 0 }).bytes();
  return { theirs: await outcome(png().then(pixels)), ours: await outcome(pixels(bytes)) };
}

describe("a JPEG gives the same pixels as Bun.Image", () => {
  /** An Exif segment that states a turn, in little-endian order. */
  const exif = ({ offset = 8, entries = 1, tag = 0x0112 }) => {
    const u16 = (value: number) => [value & 255, value >> 8];
    const u32 = (value: number) => [...u16(value), 0, 0];
    const directory = [...u16(entries), ...u16(tag), ...u16(3), ...u32(1), ...u16(6), 0, 0, ...u32(0)];
    const content = [...Buffer.from("Exif\0\0II"), ...u16(42), ...u32(offset), ...directory];
    return Buffer.from([0xff, 0xe1, 0, content.length + 2, ...content]);
  };
  /** Whether a JPEG has no end marker, or a segment whose length hides it. */
  function isCutOff(jpeg: Uint8Array): boolean {
    const file = Buffer.from(jpeg);
    const end = file.lastIndexOf(Buffer.of(0xff, 0xd9));
    if (end < 0) return true;
    return file.subarray(2, end).some((byte, i) => {
      const marker = file.readUInt8(i + 3);
      if (byte !== 0xff || marker === 0xff || marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd9)) return false;
      return i + 4 + file.readUInt16BE(i + 4) > end;
    });
  }
  const withSegment = (jpeg: Uint8Array, segment: Uint8Array) =>
    Buffer.concat([jpeg.subarray(0, 2), segment, jpeg.subarray(2)]);

  test.each([{ offset: 9 }, { offset: 60_000 }, { offset: 0 }, { entries: 0 }, { entries: 3 }, { tag: 0x0111 }])(
    "with unusual Exif data: %p",
    async (odd) => {
      const { theirs, ours } = await decodings(withSegment(await read("baseline.jpg"), exif(odd)));
      expect(ours).toEqual(theirs);
    },
  );

  test.each([0x01, 0xd0, 0xd7])("with its size behind marker %d, which has no length", async (marker) => {
    const jpeg = await read("baseline.jpg");
    const segments = Buffer.concat([Uint8Array.of(0xff, 0xd8, 0xff, marker), jpeg.subarray(2)]);
    // A second picture, of 1 × 1 pixels, which only a decoder finds that takes the two bytes behind the marker for a
    // length.
    const frame = Buffer.from("ffc0000b080001000101011100ffda0008010100003f00ffd9", "hex");
    const file = Buffer.alloc(4 + segments.readUInt16BE(4) + frame.length);
    segments.copy(file);
    frame.copy(file, file.length - frame.length);
    const { theirs, ours } = await decodings(file);
    expect(theirs).toEqual([40, 30, expect.anything()]);
    expect(ours).toEqual(theirs);
  });

  test("grey, of any size and quality, also shrunk", async () => {
    for (const [width, height, quality] of [
      [1, 1, 80],
      [17, 9, 30],
      [64, 65, 100],
      [333, 7, 95],
    ] as const) {
      const data = Uint8Array.from({ length: width * height }, (_, i) => (i * 37) % 251);
      for (const channels of [1, 3] as const) {
        const given = channels === 1 ? data : Uint8Array.from({ length: data.length * 3 }, (_, i) => (i * 91) % 253);
        const { bytes } = await Image.fromPixels({ data: given, width, height, channels }, { format: "jpeg", quality });
        const { theirs, ours } = await decodings(bytes);
        expect(ours).toEqual(theirs);
        expect(ours).not.toBe("no picture");
      }
    }
  });

  test("with random damage gives the same pixels, or both decoders refuse it", async () => {
    const originals = await Promise.all(["baseline.jpg", "progressive.jpg", "subsampled.jpg", "turned.jpg"].map(read));
    // Position in a file, in thousandths of its length. Random doubles would nearly always be close to 0.
    const place = fc.noBias(fc.nat(999));
    const damage = fc.array(fc.record({ at: place, byte: fc.nat(255) }), { minLength: 1, maxLength: 4 });
    let decoded = 0;
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...originals), damage, async (original, changes) => {
        const bytes = original.slice();
        for (const { at, byte } of changes) bytes[Math.floor((at / 1000) * bytes.length)] = byte;
        const { theirs, ours } = await decodings(bytes);
        // sconce refuses truncated pictures, which Bun fills with grey, and has other limits of size.
        if (ours === "too large" || (ours === "no picture" && isCutOff(bytes))) return;
        if (ours !== "no picture") decoded += 1;
        expect(ours).toEqual(theirs);
      }),
      { numRuns: 300 },
    );
    expect(decoded).toBeGreaterThan(50);
  });
});

describe("size and shape", () => {
  test("size comes from the header, in upright orientation", async () => {
    expect(await (await open("rgb.png")).size()).toEqual({ width: 40, height: 30 });
    expect(await (await open("turned.jpg")).size()).toEqual({ width: 30, height: 40 });
  });

  test("one given side keeps the proportions", async () => {
    const image = await open("rgb.png");
    expect(await image.pixels({ width: 20 })).toMatchObject({ width: 20, height: 15, channels: 3, layout: "hwc" });
    expect(await image.pixels({ height: 60 })).toMatchObject({ width: 80, height: 60 });
  });

  test("chw has the planes of hwc, and bgr reverses the channels", async () => {
    const image = await open("rgb.png");
    const hwc = await image.pixels();
    const chw = await image.pixels({ layout: "chw", order: "bgr" });
    const plane = hwc.width * hwc.height;
    for (let i = 0; i < plane; i += 7) {
      const pixel = [...hwc.data.subarray(i * 3, i * 3 + 3)];
      expect([chw.data[2 * plane + i], chw.data[plane + i], chw.data[i]]).toEqual(pixel);
    }
  });

  test('the bars of "contain" have the background colour in every layout', async () => {
    const options: PixelOptions = { width: 8, height: 20, fit: "contain", background: [1, 2, 3] };
    const image = await open("rgb.png");
    expect([...(await image.pixels(options)).data.subarray(0, 3)]).toEqual([1, 2, 3]);
    const chw = await image.pixels({ ...options, layout: "chw", order: "bgr", channels: 4 });
    expect([0, 160, 320, 480].map((at) => chw.data[at])).toEqual([3, 2, 1, 255]);
  });

  test("normalize equals torchvision's ToTensor and Normalize, channels first", async () => {
    const table = new Float32Array((await read("normalized.f32")).buffer);
    const image = await open("rgb.png");
    const sizes: PixelOptions = { shortSide: 24, crop: { width: 20, height: 16 } };
    const bytes = await image.pixels({ ...sizes, layout: "chw" });
    const imageNet = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
    const floats = await image.pixels({ ...sizes, normalize: imageNet });
    expect(floats).toMatchObject({ width: 20, height: 16, channels: 3, layout: "chw" });
    const expected = Float32Array.from(
      bytes.data,
      (value, i) => table[256 * Math.floor(i / 320) + value] ?? Number.NaN,
    );
    expect(floats.data).toEqual(expected);
    const hwc = await image.pixels({ ...sizes, normalize: imageNet, layout: "hwc" });
    const [red, green, blue] = [0, 320, 640].map((plane) => expected[plane + 7]);
    expect([...hwc.data.subarray(21, 24)]).toEqual([red ?? 0, green ?? 0, blue ?? 0]);
    const grey = await image.pixels({ ...sizes, channels: 1 });
    const plain = await image.pixels({ ...sizes, channels: 1, normalize: {} });
    expect(plain.data).toEqual(Float32Array.from(grey.data, (value) => value / 255));
  });

  test.each([
    [{ width: 0 }, "width is 0; give a whole number of at least 1"],
    [{ crop: 0 }, "crop is 0; give a whole number of at least 1"],
    [{ shortSide: 20.5 }, "shortSide is 20.5; give a whole number of at least 1"],
    [{ shortSide: 20, height: 30 }, "shortSide is given with width or height; give one or the other"],
    [
      { normalize: { std: [0.5, 0.5] } },
      "normalize.std has 2 numbers for 3 channels; give one number, or one for each channel",
    ],
  ])("%j is refused, and the message names the option", async (options: PixelOptions | NormalizedOptions, part) => {
    expect((await failureOf((await open("rgb.png")).pixels(options))).message).toBe(`pixels(): ${part}`);
  });

  test("bars and crops of a transparent image show the background in float pixels, too", async () => {
    const image = await open("alpha.png");
    const options: PixelOptions = { shortSide: 12, crop: { width: 30, height: 10 }, background: [0, 51, 255] };
    const bytes = await image.pixels({ ...options, layout: "chw" });
    expect([0, 300, 600].map((plane) => bytes.data[plane])).toEqual([0, 51, 255]);
    const floats = await image.pixels({ ...options, normalize: { mean: 0.5 } });
    expect(floats.data).toEqual(Float32Array.from(bytes.data, (value) => Math.fround(value / 255) - 0.5));
  });
});

describe("invalid and oversized images", () => {
  const jpegs = ["baseline.jpg", "progressive.jpg", "turned.jpg"];
  test.each([...jpegs, "rgb.png", "rgb.webp", "grey16.png"])("%s that is truncated is refused", async (name) => {
    const bytes = await read(name);
    for (const share of [0.05, 0.3, 0.6, 0.9]) {
      const cut = new Image({ bytes: bytes.subarray(0, Math.floor(bytes.length * share)), mediaType: "image/png" });
      expect((await failureOf(cut.pixels({ width: 8, height: 8 }))).code).toBe("file_invalid");
    }
  });

  test("the field's limit of pixels applies, and messages have the URL without its query", async () => {
    const image = new Image({ url: "https://user:secret@example.org/a.png?key=1", limits: { maxPixels: 1199 } });
    image.fill({ bytes: await read("rgb.png"), mediaType: "image/png" });
    const { message } = await failureOf(image.size());
    expect(message).toBe(
      "https://example.org/a.png is an image of 40 × 30 pixels; this field takes at most 1199 pixels",
    );
  });

  test("a long image is refused if covering the wanted size would take too many pixels", async () => {
    const line = await Image.fromPixels({ data: new Uint8Array(16000), width: 16000, height: 1, channels: 1 });
    expect((await failureOf(line.pixels({ width: 224, height: 224, fit: "cover" }))).code).toBe("file_too_large");
    expect((await line.pixels({ width: 224, height: 224, fit: "contain" })).data.length).toBe(224 * 224 * 3);
  });

  test("a long, narrow image is refused if its scaled rows would have too many pixels", async () => {
    const line = await Image.fromPixels({ data: new Uint8Array(250_000), width: 1, height: 250_000, channels: 1 });
    expect((await failureOf(line.pixels({ width: 224, height: 224 }))).message).toEndWith(
      "is an image of 224 × 250000 pixels while it is scaled; this field takes at most 50000000 pixels",
    );
  });
});

describe("images from pixels", () => {
  for (const format of ["jpeg", "webp"] as const) {
    test(`${format} has the requested quality`, async () => {
      const source = await (await open("rgb.png")).pixels();
      const [low, high] = [
        await Image.fromPixels(source, { format, quality: 20 }),
        await Image.fromPixels(source, { format, quality: 95 }),
      ];
      expect(low.bytes.length).toBeLessThan(high.bytes.length);
      expect(high.toDataUri()).toStartWith(`data:image/${format};base64,`);
      expect(await high.size()).toEqual({ width: 40, height: 30 });
    });
  }

  test("transparency is blended with white in a JPEG", async () => {
    const data = new Uint8Array(16 * 16 * 4);
    const image = await Image.fromPixels({ data, width: 16, height: 16, channels: 4 }, { format: "jpeg" });
    expect((await image.pixels()).data[0]).toBeGreaterThan(250);
  });

  test("data of the wrong length is refused with both lengths", async () => {
    const error = await failureOf(Image.fromPixels({ data: new Uint8Array(5), width: 2, height: 2, channels: 3 }));
    expect(error.code).toBe("item_failed");
    expect(error.message).toBe("Image.fromPixels: 2 × 2 pixels of 3 channels are 12 values, received 5");
  });
});

test("a picture whose decoding waits for the event loop counts that time as a wait", async () => {
  const heldMs = 50;
  for (let waitedMs = 0; waitedMs < heldMs / 2; ) {
    const image = await open("baseline.jpg");
    const decoding = image.pixels();
    // After some promises the decoder waits for the event loop, which the next line blocks for `heldMs`.
    for (let i = 0; i < 20; i++) await undefined;
    for (const untilMs = performance.now() + heldMs; performance.now() < untilMs; );
    const before = image.waitedMs;
    await decoding;
    waitedMs = image.waitedMs - before;
  }
});
