/** Reading gives back what sconce wrote: WAV files, pictures, and data URIs of files and of tensors. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Audio } from "../src/author/audio/audio.ts";
import { decodeDataUrl } from "../src/author/data-url.ts";
import { ModelFile } from "../src/author/file.ts";
import { Image } from "../src/author/media.ts";
import { arrayFromBytes } from "../src/author/ndarray-bytes.ts";
import { bytesFromArray } from "../src/author/ndarray-wire.ts";
import { float64, int64, type Tensor, tensor } from "../src/author/tensor.ts";

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 });
// Whole numbers have no negative zero.
const number = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value || 0);

test("a WAV file has the samples that were written", async () => {
  const sounds = fc.record({
    channels: fc.integer({ min: 1, max: 8 }),
    length: fc.integer({ min: 0, max: 40 }),
    rate: fc.integer({ min: 1, max: 768_000 }),
    codes: fc.infiniteStream(fc.integer({ min: -(2 ** 15), max: 2 ** 15 - 1 })),
    encoding: fc.constantFrom("pcm16", "float32"),
  });
  await fc.assert(
    fc.asyncProperty(sounds, async ({ channels, length, rate, codes, encoding }) => {
      const data = Float32Array.from({ length: channels * length }, () => (codes.next().value ?? 0) / 2 ** 15);
      const read = await Audio.fromSamples({ data, rate, channels }, { encoding }).samples();
      expect(read).toEqual({ data, rate, channels, length });
    }),
  );
});

test("a PNG has the pixels that were written", async () => {
  const pictures = fc.record({
    width: fc.integer({ min: 1, max: 9 }),
    height: fc.integer({ min: 1, max: 9 }),
    channels: fc.constantFrom(1, 3, 4),
    layout: fc.constantFrom("hwc", "chw"),
    values: fc.infiniteStream(fc.integer({ min: 0, max: 255 })),
  });
  await fc.assert(
    fc.asyncProperty(pictures, async ({ width, height, channels, layout, values }) => {
      const data = Uint8Array.from({ length: width * height * channels }, () => values.next().value ?? 0);
      const image = await Image.fromPixels({ data, width, height, channels, layout });
      expect(await image.pixels({ channels, layout })).toEqual({ data, width, height, channels, layout });
    }),
  );
});

test("a PNG of one channel is grey, and of two channels grey and alpha, each of 8 bits", async () => {
  const pictures = fc.record({
    width: fc.integer({ min: 1, max: 40 }),
    height: fc.integer({ min: 1, max: 9 }),
    channels: fc.constantFrom(1, 2),
    layout: fc.constantFrom("hwc", "chw"),
    // Steep and flat pictures get different filters of rows.
    step: fc.integer({ min: 0, max: 255 }),
  });
  await fc.assert(
    fc.asyncProperty(pictures, async ({ width, height, channels, layout, step }) => {
      const count = width * height;
      const data = Uint8Array.from({ length: count * channels }, (_, i) => i * step + ((i * i) >> 3));
      const image = await Image.fromPixels({ data, width, height, channels, layout });
      // The bit depth and the colour type in the header of the file.
      expect([...image.bytes.subarray(24, 26)]).toEqual([8, channels === 1 ? 0 : 4]);
      const value = (i: number, channel: number) =>
        data[layout === "hwc" ? i * channels + channel : channel * count + i] ?? 0;
      const expected = Array.from({ length: count }, (_, i) => {
        const grey = value(i, 0);
        return [grey, grey, grey, channels === 1 ? 255 : value(i, 1)];
      });
      expect([...(await image.pixels({ channels: 4 })).data]).toEqual(expected.flat());
    }),
  );
});

test("a data URI has the file's bytes and media type", () => {
  const mediaTypes = fc.constantFrom("image/png", "Text/Plain; charset=UTF-8", 'a/b; x="y,z"; v=1', "");
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), mediaTypes, (bytes, mediaType) => {
      const file = new ModelFile({ bytes, mediaType });
      const read = decodeDataUrl(file.toDataUri(), 100);
      expect([...read.bytes]).toEqual([...bytes]);
      expect(read.mediaType).toBe(file.mediaType);
    }),
  );
});

test("a file without a real media type is not made, because no reader takes its data URI", () => {
  expect(() => new ModelFile({ bytes: new Uint8Array(1), mediaType: "wav" })).toThrow(
    'new ModelFile: the media type is "wav"; give one such as "audio/wav"',
  );
});

describe.each([["float64", number, float64] as const, ["int64", fc.maxSafeInteger().map(BigInt), int64] as const])(
  "a tensor of %s",
  (dtype, element, declare) => {
    const tensors = fc.tuple(shapes, fc.infiniteStream<number | bigint>(element)).map(([shape, elements]): Tensor => {
      const length = shape.reduce((product, size) => product * size, 1);
      const values = Array.from({ length }, () => elements.next().value);
      return dtype === "float64"
        ? tensor(Float64Array.from(values, Number), shape)
        : tensor(BigInt64Array.from(values, BigInt), shape);
    });
    const specOf = ({ shape }: Tensor) => declare(...shape.map((_, i) => `size${i}`));

    test("is read from the bytes that were written", () => {
      fc.assert(
        fc.property(tensors, (given) => {
          expect(arrayFromBytes(specOf(given), bytesFromArray(given))).toEqual({ array: given, faults: [] } as never);
        }),
      );
    });
  },
);
