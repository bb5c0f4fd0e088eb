/** MP3, Ogg Vorbis and Ogg Opus: samples equal libsndfile's, and damaged files are refused. */
import { describe, expect, test } from "bun:test";
import { crc } from "../../src/author/audio/crc.ts";
import type { AudioDecoder } from "../../src/author/audio/decoder.ts";
import { audio } from "../../src/index.ts";
import { audioFault, audioOf } from "../helpers/audio.ts";
import { changedSounds, decoders, hasSounds, soundOf, sounds } from "../helpers/sounds.ts";
import { greatestDifference } from "../helpers/tensors.ts";

/** Wraps a decoder: counts the parts of the file that it gets, and how often it is freed. */
function counted(make: (() => AudioDecoder) | undefined): {
  make: () => AudioDecoder;
  made: number;
  parts: number;
  freed: number;
} {
  const counts = {
    made: 0,
    parts: 0,
    freed: 0,
    make(): AudioDecoder {
      if (make === undefined) throw new Error("there is no decoder");
      counts.made += 1;
      const decoder = make();
      return {
        ready: decoder.ready,
        decode(part) {
          counts.parts += 1;
          return decoder.decode(part);
        },
        flush: async () => (await decoder.flush?.()) ?? { channelData: [], sampleRate: 0, errors: [] },
        free() {
          counts.freed += 1;
          return decoder.free();
        },
      };
    },
  };
  return counts;
}

describe.skipIf(!hasSounds)(`samples of a compressed file (with libsndfile${hasSounds ? "" : ": not here"})`, () => {
  test.each([...sounds().keys()])("%s are as many as libsndfile's and equal them within 1e-4", async (name) => {
    const { bytes, samples, ...form } = soundOf(name);
    // mpg123-decoder gives two equal channels for a mono file.
    const isRepeated = name.endsWith("mp3") && form.channels === 1;
    const { data, ...read } = await audioOf(bytes).samples(isRepeated ? { channels: 1 } : {});
    expect(read).toEqual(form);
    expect(greatestDifference(data, samples)).toBeLessThan(1e-4);
    expect(samples.some((sample) => Math.abs(sample) > 0.3)).toBe(true);
  });

  test("need a decoder, whose package the error names", async () => {
    const names = ["48000-2.opus", "48000-2.mp3", "48000-2.ogg"];
    const faults = await Promise.all(names.map((name) => audioFault(soundOf(name).bytes, audio())));
    const packages = [
      / is Ogg Opus, .* ogg-opus-decoder /,
      / is MP3, .* mpg123-decoder /,
      / is Ogg Vorbis, .*ogg-vorbis /,
    ];
    expect(faults).toEqual(packages.map((each) => expect.stringMatching(each)));
  });

  test.each(changedSounds())("%s: as many as libsndfile's, or refused", async (_, bytes, length) => {
    // libsndfile gives an empty result for some cut files.
    if (length === undefined || length === 0) expect(await audioFault(bytes)).toStartWith("file_invalid: ");
    else expect((await audioOf(bytes).samples()).length).toBe(length);
  });

  test.each(["48000-2.opus", "48000-2.ogg"])("%s are the same without the flag of the last page", async (name) => {
    const { bytes } = soundOf(name);
    const [unmarked, last] = [Buffer.from(bytes), Buffer.from(bytes).lastIndexOf("OggS")];
    unmarked.writeUInt8((unmarked[last + 5] ?? 0) & ~4, last + 5);
    unmarked.writeUInt32LE(0, last + 22);
    unmarked.writeUInt32LE(crc(unmarked.subarray(last), { bits: 32, polynomial: 0x04c11db7 }), last + 22);
    expect(await audioOf(unmarked).samples()).toEqual(await audioOf(bytes).samples());
  });

  test("are those of a FLAC that does not say its length", async () => {
    const bytes = Uint8Array.from(changedSounds().find(([name]) => name === "flac plain")?.[1] ?? []);
    const all = await audioOf(bytes).samples();
    bytes.fill(0, 22, 26);
    expect(await audioOf(bytes).samples()).toEqual(all);
  });
});

describe.skipIf(!hasSounds)("a compressed file", () => {
  test.each(["long.mp3", "long.ogg", "long.opus"])(
    "%s that is longer than its field allows is decoded no further, and the decoder is freed",
    async (name) => {
      const { bytes } = soundOf(name);
      const all = Object.entries(decoders).map(([format, make]) => [format, counted(make)] as const);
      const own = Object.fromEntries(all.map(([format, { make }]) => [format, make]));
      expect(await audioFault(bytes, audio({ maxSeconds: 1, decoders: own }))).toStartWith("file_too_large: ");
      const [used] = all.map(([, counts]) => counts).filter(({ parts }) => parts > 0);
      expect(used?.parts).toBeLessThan(bytes.length / 1024 / 2);
      expect(used?.freed).toBe(used?.made);
    },
  );

  test("whose decoder fails is refused, and the decoder is freed", async () => {
    const decoder = {
      ready: Promise.resolve(),
      decode(): never {
        throw new RangeError("/secret/path");
      },
      freed: 0,
      free() {
        this.freed += 1;
      },
    };
    const field = audio({ decoders: { mp3: () => decoder } });
    expect(await audioFault(soundOf("16000-1.mp3").bytes, field)).toMatch(/^file_invalid: .*: its decoder failed$/);
    expect(decoder.freed).toBe(1);
  });
});
