/** Files of very many small headers: each reader stops at a number of headers, so that no file blocks the event loop. */
import { describe, expect, spyOn, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Audio } from "../src/author/audio/audio.ts";
import { Resampler } from "../src/author/audio/resample.ts";
import { Image } from "../src/author/media.ts";
import { arrayOfNpy } from "../src/base/npy.ts";
import { failureOf } from "./helpers/failure.ts";

interface Reader {
  /** A file with this many headers of the smallest size before its content. */
  file(count: number): Uint8Array;
  read(file: Uint8Array): unknown;
}

const media = (name: string) => readFileSync(join(import.meta.dir, "data/media", name));
const size = (bytes: Uint8Array) => new Image({ bytes, mediaType: "image/png" }).size();

/** A file with `count` copies of a record at the byte `at`. */
const inserted = (file: Uint8Array, at: number, record: readonly number[]) => (count: number) =>
  Buffer.concat([file.subarray(0, at), Buffer.alloc(count * record.length, Buffer.from(record)), file.subarray(at)]);

const wav = Audio.fromSamples({ data: Float32Array.of(0, 0.5), rate: 8000 }).bytes;
const emptyChunk = [...Buffer.from("junk"), 0, 0, 0, 0];
const animation = media("animated.webp");
const jpeg = media("baseline.jpg");
const turned = media("turned.jpg");
/** Length of the first segment of the turned JPEG, which has the orientation. */
const orientationEnd = 4 + turned.readUInt16BE(4);

const readers: Readonly<Record<string, Reader>> = {
  "chunks of a WAV file": {
    file: inserted(wav, 36, emptyChunk),
    read: (bytes) => new Audio({ bytes, mediaType: "audio/wav" }).samples(),
  },
  "chunks of an animated WebP": { file: inserted(animation, 30, emptyChunk), read: size },
  "comments of a JPEG": { file: inserted(jpeg, 2, [0xff, 0xfe, 0, 2]), read: size },
  "restart markers of a JPEG": { file: inserted(jpeg, 2, [0xff, 0xd0]), read: size },
  "fill bytes of a JPEG": { file: inserted(jpeg, 2, [0xff]), read: size },
  "comments of a turned JPEG": { file: inserted(turned, orientationEnd, [0xff, 0xfe, 0, 2]), read: size },
};

describe.each(Object.entries(readers))("%s", (_, { file, read }) => {
  test("are skipped before the content", async () => {
    expect(await read(file(100))).toEqual(await read(file(0)));
  });

  test.each([65_537, 3_000_000])("are refused if there are %d, whatever follows", async (count) => {
    const { code, message } = await failureOf(Promise.resolve(read(file(count))));
    expect(code).toBe("file_invalid");
    expect(message).toMatch(/it has more than 65536 (chunks|segments) before its content/);
  });
});

test("A NumPy file's header is read up to NumPy's own limit", () => {
  const file = (sizes: number) => {
    const header = `{'descr': '|u1', 'fortran_order': False, 'shape': (${"1,".repeat(sizes)}), }\n`;
    const prefix = Buffer.from("\x93NUMPY\x02\x00\0\0\0\0", "latin1");
    prefix.writeUInt32LE(header.length, 8);
    return Buffer.concat([prefix, Buffer.from(header), Buffer.of(7)]);
  };
  expect(arrayOfNpy(file(60))?.at(0)).toBe(7);
  expect(() => arrayOfNpy(file(15_000_000))).toThrow("its header has 30000056 bytes; NumPy reads at most 10000");
});

test("Resampling between rates without a common divisor gives the event loop a turn after a bounded number of weights", async () => {
  const rates = { from: 767_999, to: 16_000 };
  const maxWeights = 65_536 + 600;
  using clock = spyOn(performance, "now");
  let ms = 0;
  // Each look at the clock finds the turn over, so the work ends its turn wherever it looks.
  clock.mockImplementation(() => (ms += 1000));
  using cosines = spyOn(Math, "cos");
  const counts: number[] = [];
  let isOver = false;
  const count = () => {
    counts.push(cosines.mock.calls.length);
    cosines.mockClear();
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await new Resampler(rates).run(new Float32Array(20_000), new Float32Array(417));
  isOver = true;
  expect(counts.length).toBeGreaterThan(3);
  expect(Math.max(...counts)).toBeLessThan(maxWeights);
});

test("Memory of resampling filters counts in the limit of one file", async () => {
  expect(new Resampler({ from: 767_999, to: 16_000 }).filterBytes(16_000)).toBe(4 * 16_000 * 582);
  expect(new Resampler({ from: 48_000, to: 16_000 }).filterBytes(16_000)).toBeLessThan(200);
});
