/** Arrays and sounds as other programs write them: the values are those that numpy and libsndfile read (data/written.py). */
import { expect, test } from "bun:test";
import { z } from "zod";
import { Audio } from "../src/author/audio/audio.ts";
import { arrayOfNpy, listsOfNpy } from "../src/base/npy.ts";
import { failureOf } from "./helpers/failure.ts";
import { decoders } from "./helpers/sounds.ts";

const fileSchema = z.object({
  file: z.base64().transform((text) => Uint8Array.fromBase64(text)),
  shape: z.array(z.int()).optional(),
  rate: z.int().optional(),
  values: z.array(z.number()).optional(),
});
const written = z
  .record(z.string(), fileSchema)
  .parse(await Bun.file(new URL("data/written.json", import.meta.url)).json());
const filesOf = (format: string) => Object.entries(written).filter(([name]) => name.startsWith(`${format} `));

const flat = (lists: unknown): unknown[] => (Array.isArray(lists) ? lists.flatMap(flat) : [lists]);

test.each(filesOf("npy"))("%s", (_, { file, shape, values }) => {
  if (values === undefined) return void expect(() => arrayOfNpy(file)).toThrow();
  const array = arrayOfNpy(file);
  const read = Array.from(values, (_, i) => Number(array?.at(i)));
  expect<unknown>([array?.shape, read]).toEqual([shape, values]);
  expect(flat(listsOfNpy(file)).map(Number)).toEqual(values);
});

test.each(filesOf("wav"))("%s", async (_, { file, shape = [], rate, values }) => {
  const sound = await new Audio({ bytes: file, mediaType: "audio/wav" }, { decoders }).samples();
  expect<unknown>([sound.rate, sound.channels, sound.length]).toEqual([rate, ...shape]);
  expect<unknown>([...sound.data]).toEqual(values);
});

test("a file that is cut off is no file of unknown length", async () => {
  const { file } = written["wav WAV PCM_16 1"] ?? { file: new Uint8Array() };
  for (const size of [file.length, 2 ** 20, 2 ** 31 - 2 ** 20, 2 ** 31 + 2 ** 20]) {
    const cut = file.slice();
    new DataView(cut.buffer).setUint32(40, size, true);
    const error = await failureOf(new Audio({ bytes: cut, mediaType: "audio/wav" }, { decoders }).samples());
    expect(error.message).toContain("cut off");
  }
});

test("RF64 of unknown length is read to its end, and RF64 that is cut off after more than 4 GiB is refused", async () => {
  const { file, shape, values } = written["wav RF64 PCM_16 1"] ?? { file: new Uint8Array() };
  const sized = (size: bigint) => {
    const bytes = file.slice();
    new DataView(bytes.buffer).setBigUint64(28, size, true);
    return new Audio({ bytes, mediaType: "audio/wav" }, { decoders }).samples();
  };
  for (const size of [0n, 2n ** 64n - 1n]) {
    const { data, channels, length } = await sized(size);
    expect<unknown>([[...data], channels, length]).toEqual([values, ...(shape ?? [])]);
  }
  expect((await failureOf(sized(5n * 2n ** 30n))).message).toContain("cut off");
});

test("big-endian WAV is refused by its name", async () => {
  const bytes = written["wav WAV PCM_16 1"]?.file.slice() ?? new Uint8Array();
  bytes.set(new TextEncoder().encode("RIFX"));
  const error = await failureOf(new Audio({ bytes, mediaType: "audio/wav" }, { decoders }).samples());
  expect(error.message).toContain("RIFX");
});
