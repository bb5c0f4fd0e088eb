/** Audio fields: WAV and FLAC files become samples of one rate, samples become WAV; limits, and malicious files. */
import { describe, expect, test } from "bun:test";
import { Resampler, resampledLength } from "../src/author/audio/resample.ts";
import { Audio, audio, z } from "../src/index.ts";
import files from "./data/audio-files.json";
import resampled from "./data/resampled.json";
import { audioFault, audioOf } from "./helpers/audio.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { storeWith } from "./helpers/server.ts";
import { decoders } from "./helpers/sounds.ts";

const flac = Uint8Array.fromBase64(files["flac 16 stereo"].file);
const wav = Uint8Array.fromBase64(files["wav PCM_16"].file);

describe("samples()", () => {
  test.each(["flac 16 mono", "flac 16 stereo", "flac 24 stereo", "flac 8 mono"] as const)(
    "of %s are those of the author's decoder, which divides by the largest value",
    async (name) => {
      const { file, length, channels, rate, first } = files[name];
      const bits = Number(name.split(" ")[1]);
      const { data, ...samples } = await audioOf(Uint8Array.fromBase64(file)).samples();
      expect(samples).toEqual({ length, channels, rate });
      const scale = 2 ** (bits - 1) / (2 ** (bits - 1) - 1);
      for (const [channel, value] of first.entries()) expect(data[channel * length]).toBeCloseTo(value * scale, 6);
    },
  );

  test("mix channels to their mean, or repeat the channel of a mono file", async () => {
    const stereo = await audioOf(flac).samples();
    const mono = await audioOf(flac).samples({ channels: 1 });
    const { length } = stereo;
    expect([...mono.data]).toEqual(
      Array.from(mono.data, (_, i) => Math.fround(((stereo.data[i] ?? 0) + (stereo.data[length + i] ?? 0)) / 2)),
    );
    const twice = await Audio.fromSamples({ data: mono.data, rate: 8000 }, { encoding: "float32" }).samples({
      channels: 2,
    });
    expect(twice.data.subarray(0, length)).toEqual(mono.data);
    expect(twice.data.subarray(length)).toEqual(mono.data);
  });

  test("are decoded and resampled in one call", async () => {
    const source = await audioOf(flac).samples({ channels: 1 });
    const { data, rate, channels, length } = await audioOf(flac).samples({ rate: 16_000, channels: 1 });
    const expected = new Float32Array(resampledLength(source.length, { from: 44_100, to: 16_000 }));
    await new Resampler({ from: 44_100, to: 16_000 }).run(source.data, expected);
    expect([rate, channels, length]).toEqual([16_000, 1, expected.length]);
    expect(data).toEqual(expected);
  });

  test.each([
    [{ rate: 0 }, "samples(): rate is 0; give a whole number up to 768000"],
    [{ rate: 1.5 }, "samples(): rate is 1.5; give a whole number up to 768000"],
    [{ channels: 3 }, "samples(): channels is 3; give 1 or 2"],
  ])("refuse %p", async (options, message) => {
    expect((await failureOf(audioOf(wav).samples(options))).message).toBe(message);
  });
});

/**
 * torchaudio computed the expected values in float64. In float32 it rounds the positions of the filter taps, which
 * changes results by up to 1.4e-5.
 */
describe("resampling", () => {
  const signal = Float32Array.from({ length: 600 }, (_, i) => (((i * 37) % 400) - 200) / 256);

  test.each(Object.entries(resampled))(
    "%s gives the numbers of torchaudio.transforms.Resample within 5e-7",
    async (rates, right) => {
      const [from = 0, to = 0] = rates.split(" ").map(Number);
      const target = new Float32Array(resampledLength(signal.length, { from, to }));
      await new Resampler({ from, to }).run(signal, target);
      const middle = Math.floor(right.length / 2);
      const parts = { first: target.slice(0, 12), middle: target.slice(middle, middle + 6), last: target.slice(-6) };
      expect(target.length).toBe(right.length);
      for (const [name, part] of Object.entries(parts)) {
        const expected = right[name as keyof typeof parts];
        for (const [i, value] of part.entries())
          expect(Math.abs(value - (expected[i] ?? Number.NaN))).toBeLessThan(5e-7);
      }
    },
  );
});

test("Audio.fromSamples refuses a number of values that is no multiple of the channels", () => {
  const wrong = () => Audio.fromSamples({ data: new Float32Array(3), rate: 8000, channels: 2 });
  expect(wrong).toThrow("Audio.fromSamples: 3 values are no 2 channels at the rate 8000");
});

describe("a file", () => {
  const formats = "WAV, FLAC, MP3, Ogg Vorbis or Ogg Opus";
  test.each([
    ["of another format", Buffer.from("MThd something"), `not audio that can be read; send ${formats}`],
    ["without bytes", new Uint8Array(), `empty and not audio that can be read; send ${formats}`],
    ["that is cut off (WAV)", wav.subarray(0, -10), "audio that is damaged or cannot be read: it is cut off"],
  ])("%s is refused", async (_, bytes, message) => {
    expect(await audioFault(bytes)).toBe(`file_invalid: https://example.com/a is ${message}`);
  });

  test("in a format without a decoder is refused with the line that installs one", async () => {
    expect(await audioFault(flac, audio())).toBe(
      "file_invalid: https://example.com/a is FLAC, for which this model has no decoder; its author can run: npm install @wasm-audio-decoders/flac (docs/declare.md#decoders)",
    );
  });

  test("that is longer than its field allows is refused: a WAV by its header, a FLAC after so many samples", async () => {
    const seconds = Audio.fromSamples({ data: new Float32Array(50_400), rate: 8000 }).bytes;
    expect(await audioFault(seconds, audio({ maxSeconds: 5 }))).toBe(
      "file_too_large: https://example.com/a has 6.3 seconds; this field takes at most 5",
    );
    const silence = Uint8Array.fromBase64(files["flac silence"].file);
    expect(await audioFault(silence, audio({ maxSeconds: 5, decoders }))).toBe(
      "file_too_large: https://example.com/a has more than 5 seconds; this field takes no more",
    );
  });
});

test("a model gets samples of a client's file and answers with a WAV file", async () => {
  await using dir = await tempDir();
  const source = modelText({
    name: '"echo"',
    input: "z.object({ sound: audio({ maxSeconds: 1 }) })",
    output: "z.object({ sound: audio(), rate: z.int() })",
    example: '{ sound: "a.wav" }',
    preprocess: `async ({ sound }) => {
      const { length } = await sound.samples({ rate: 16000, channels: 1 });
      return { x: tensor.float32(length), steps: tensor.int64(0) };
    }`,
    postprocess: `async ({ y }, { input: { sound } }) => {
      const { data, rate } = await sound.samples({ rate: 11025, channels: 1 });
      return { sound: Audio.fromSamples({ data, rate }), rate: y.item() };
    }`,
  }).replace("import {", "import { Audio, audio,");
  await Bun.write(dir.join("a.wav"), wav);
  await writeModel(dir, source);
  await using store = await storeWith(dir.path);
  await using server = await store.serve("echo");
  const dataUri = `data:audio/wav;base64,${files["wav PCM_16"].file}`;
  const { outputs } = await server.client.predict([{ sound: dataUri }]);
  const [output] = z.array(z.object({ sound: z.string(), rate: z.int() })).parse(outputs);
  const { length, rate } = files["wav PCM_16"];
  expect(output?.rate).toBe(2 * Math.ceil((length * 16_000) / rate) + 1);
  const [head = "", base64 = ""] = (output?.sound ?? "").split(",");
  expect(head).toBe("data:audio/wav;base64");
  const answered = await audioOf(Uint8Array.fromBase64(base64)).samples();
  expect([answered.rate, answered.channels, answered.length]).toEqual([11_025, 1, Math.ceil((length * 11_025) / rate)]);
  const long = Audio.fromSamples({ data: new Float32Array(16_001), rate: 16_000 }).toDataUri();
  const { errors } = await server.client.predict([{ sound: dataUri }, { sound: long }]);
  expect(errors).toEqual([{ index: 1, message: "The file has 1.0 seconds; this field takes at most 1" }]);
  const { input_schema: schema } = z.looseObject({ input_schema: z.json() }).parse(await server.client.json("/"));
  expect(schema).toMatchObject({
    properties: { sound: { format: "uri", "x-sconce-file": { mediaTypes: ["audio/*"] } } },
  });
});
