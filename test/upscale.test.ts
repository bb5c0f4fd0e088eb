/** The example upscale in a real server: its code and its weights. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { defaultLimits } from "../src/author/file.ts";
import { Image, type Pixels } from "../src/author/media.ts";
import { bytesOfUri } from "./helpers/data-uri.ts";
import { fixture } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";
import { greatestDifference } from "./helpers/tensors.ts";

const example = join(import.meta.dir, "../examples/upscale");

const store = fixture(() => storeWith(example), 120_000);
const server = fixture(() => store.serve("upscale"), 120_000);

describe("photographs that the training never saw, halved in size:", () => {
  for (const name of ["camera.png", "chelsea.png", "coffee.jpg"]) {
    test(`${name} is at least 0.5 dB closer to the original than with bicubic interpolation`, async () => {
      const original = await (await sample(name)).pixels();
      const { width, height } = original;
      const halved = await (await sample(name)).pixels({ width: width / 2, height: height / 2, filter: "bicubic" });
      const small = await Image.fromPixels(halved);
      const bicubic = await small.pixels({ width, height, filter: "bicubic" });
      const [enlarged] = await enlarge([small]);
      expect(psnr(enlarged, original)).toBeGreaterThan(psnr(bicubic, original) + 0.5);
    });
  }
});

describe("the upscaled picture", () => {
  const sizes = [
    [1, 1],
    [2, 1],
    [1, 7],
    [3, 3],
    [16, 16],
    [17, 24],
    [600, 2],
    [5, 401],
  ] as const;

  test("is exactly twice as wide and twice as high, at any size", async () => {
    const enlarged = await enlarge(await Promise.all(sizes.map(([width, height]) => picture(width, height))));
    expect(enlarged.map(({ width, height }) => [width, height])).toEqual(sizes.map((size) => size.map((n) => 2 * n)));
  });

  test("is the same alone, beside pictures of its own size, and beside pictures of other sizes", async () => {
    const some = [picture(24, 18, 1), picture(7, 31, 2), picture(24, 18, 3), picture(24, 18, 4), picture(31, 7, 5)];
    const pictures = await Promise.all(some);
    const together = await enlarge(pictures);
    for (const [i, one] of pictures.entries()) {
      const [alone] = await enlarge([one]);
      expect(differenceOf(together[i], alone)).toBeLessThanOrEqual(1);
    }
    expect(differenceOf(together[0], together[2])).toBeGreaterThan(10);
  });

  test("is an opaque PNG in which transparency has become white", async () => {
    const data = new Uint8Array(12 * 12 * 4);
    for (let i = 0; i < data.length; i += 4) data.set(i % 48 < 24 ? [255, 0, 0, 0] : [0, 0, 255, 255], i);
    const transparent = await Image.fromPixels({ data, width: 12, height: 12, channels: 4 });
    const { outputs } = await server.client.predict([{ image: transparent.toDataUri() }]);
    const uri = outputs?.[0]?.image as string;
    expect(uri).toStartWith("data:image/png;base64,");
    const pixels = await fromUri(uri).pixels({ channels: 4, background: [0, 255, 0] });
    const at = (x: number, y: number) => [...pixels.data.slice((y * 24 + x) * 4, (y * 24 + x) * 4 + 4)];
    const near = (actual: number[], expected: number[]) =>
      expect(greatestDifference(actual, expected)).toBeLessThanOrEqual(12);
    near(at(3, 12), [255, 255, 255, 255]);
    near(at(20, 12), [0, 0, 255, 255]);
  });
});

type Picture = Pick<Pixels, "width" | "height" | "data">;

async function enlarge<const I extends readonly Image[]>(images: I): Promise<{ [K in keyof I]: Pixels }> {
  const prediction = await server.client.predict(images.map((image) => ({ image: image.toDataUri() })));
  if (prediction.status !== "success") throw new Error(prediction.error_message);
  const outputs = prediction.outputs ?? [];
  const pixels = await Promise.all(outputs.map((output) => fromUri(output.image as string).pixels()));
  return pixels as { [K in keyof I]: Pixels };
}

async function sample(name: string): Promise<Image> {
  const file = Bun.file(join(example, "samples", name));
  return new Image({ bytes: await file.bytes(), mediaType: file.type });
}

/** A test picture with stripes and steps, a different one for each `seed`. */
function picture(width: number, height: number, seed = 0): Promise<Image> {
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * (37 + seed * 2) + (i >> 5) * 91) % 256);
  return Image.fromPixels({ data, width, height, channels: 3 });
}

function fromUri(uri: string): Image {
  const image = new Image({ url: uri, limits: defaultLimits });
  image.fill({ bytes: bytesOfUri(uri), mediaType: "image/png" });
  return image;
}

function differenceOf(actual: Picture | undefined, expected: Picture | undefined): number {
  if (actual === undefined || expected === undefined) throw new Error("a picture is missing");
  expect([actual.width, actual.height]).toEqual([expected.width, expected.height]);
  return greatestDifference(actual.data, expected.data);
}

/** Peak signal-to-noise ratio of the luma in dB, without a border of four pixels, as in train.py. */
function psnr(actual: Picture, { width, height, data }: Picture): number {
  let squares = 0;
  for (let y = 4; y < height - 4; y++) {
    for (let x = 4; x < width - 4; x++) {
      const at = (y * width + x) * 3;
      squares += (lumaAt(actual.data, at) - lumaAt(data, at)) ** 2;
    }
  }
  return 10 * Math.log10((255 ** 2 * (width - 8) * (height - 8)) / squares);
}

function lumaAt(data: Uint8Array, at: number): number {
  return 0.299 * (data[at] ?? 0) + 0.587 * (data[at + 1] ?? 0) + 0.114 * (data[at + 2] ?? 0);
}
