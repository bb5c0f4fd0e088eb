/** MP3, Ogg Vorbis and Ogg Opus: samples equal libsndfile's, and damaged files are refused. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { AudioDecoder } from "../../src/author/audio/decoder.ts";
import { pagesOf } from "../../src/author/audio/ogg.ts";
import { SconceError } from "../../src/base/errors.ts";
import { Audio, audio, z } from "../../src/index.ts";
import { repaired, withPages } from "../helpers/ogg-pages.ts";
import { decoders, hasSounds, type Sound, sounds } from "../helpers/sounds.ts";

const all = sounds();
const soundOf = (name: string): Sound => {
  const sound = all.get(name);
  if (sound === undefined) throw new Error(`there is no ${name}`);
  return sound;
};
const audioOf = (bytes: Uint8Array, own = decoders) => new Audio({ bytes, mediaType: "audio/mpeg" }, { decoders: own });

/** The code and message of the error that reading the file raises; undefined if the file is readable. */
async function faultOf(bytes: Uint8Array, field = audio({ decoders })): Promise<string | undefined> {
  const decoded = z.decode(field, "https://example.com/a");
  decoded.fill({ bytes, mediaType: "audio/mpeg" });
  try {
    await decoded.samples();
    return undefined;
  } catch (error) {
    if (error instanceof SconceError) return `${error.code}: ${error.message}`;
    throw error;
  }
}

const damaged = (why: string) =>
  `file_invalid: https://example.com/a is audio that is damaged or cannot be read: ${why}`;

/** Wraps a decoder: counts the parts of the file that it gets, and how often it is freed. */
function counted(make: (() => AudioDecoder) | undefined): { make: () => AudioDecoder; parts: number; freed: number } {
  const counts = {
    parts: 0,
    freed: 0,
    make(): AudioDecoder {
      if (make === undefined) throw new Error("there is no decoder");
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
  test.each([...all.keys()])("%s are as many as libsndfile's and equal them within 1e-4", async (name) => {
    const { bytes, samples, ...form } = soundOf(name);
    const { data, ...read } = await audioOf(bytes).samples();
    expect(read).toEqual(form);
    expect(data.length).toBe(samples.length);
    const largest = data.reduce((most, value, i) => Math.max(most, Math.abs(value - (samples[i] ?? Number.NaN))), 0);
    expect(largest).toBeLessThan(1e-4);
    expect(samples.some((sample) => Math.abs(sample) > 0.3)).toBe(true);
  });

  test("need no decoder package for Ogg Opus; for other formats the error names the package", async () => {
    const names = ["48000-2.opus", "48000-2.mp3", "48000-2.ogg"];
    const faults = await Promise.all(names.map((name) => faultOf(soundOf(name).bytes, audio())));
    expect(faults).toEqual([
      undefined,
      "file_invalid: https://example.com/a is MP3, for which this model has no decoder; its author can install mpg123-decoder (docs/declare.md#mp3-and-ogg-vorbis)",
      "file_invalid: https://example.com/a is Ogg Vorbis, for which this model has no decoder; its author can install @wasm-audio-decoders/ogg-vorbis (docs/declare.md#mp3-and-ogg-vorbis)",
    ]);
  });

  test("are the same with and without tags before and after an MP3", async () => {
    const { bytes } = soundOf("44100-2.mp3");
    const id3 = Uint8Array.of(0x49, 0x44, 0x33, 4, 0, 0, 0, 0, 1, 2, ...new Uint8Array(130).fill(0xff));
    const ape = Buffer.concat([Buffer.from("APETAGEX"), Buffer.from([0xd0, 7, 0, 0, 40]), new Uint8Array(59).fill(1)]);
    const tag = Buffer.concat([Buffer.from("TAG"), new Uint8Array(125).fill(0xff)]);
    const tagged = await audioOf(Buffer.concat([id3, bytes, ape, tag])).samples();
    expect(tagged).toEqual(await audioOf(bytes).samples());
  });

  test("of Ogg Opus have the gain of the header", async () => {
    const { bytes } = soundOf("48000-1.opus");
    const quiet = withPages(bytes, (page, index) => index === 0 && page.setInt16(28 + 16, -256 * 20, true));
    const [{ data }, { data: tenth }] = await Promise.all([audioOf(bytes).samples(), audioOf(quiet).samples()]);
    expect(tenth).toEqual(data.map((sample) => sample * 0.1));
  });

  test("of a part of a longer Opus stream begin where the part begins", async () => {
    const { bytes } = soundOf("long.opus");
    const later = withPages(bytes, (page, index) => {
      if (index > 1) page.setBigInt64(6, page.getBigInt64(6, true) + 480_000n, true);
    });
    expect(await audioOf(later).samples()).toEqual(await audioOf(bytes).samples());
  });
});

describe.skipIf(!hasSounds)("a compressed file", () => {
  const short = ["16000-1.mp3", "44100-2.mp3", "variable.mp3", "44100-2.ogg", "48000-2.opus"];

  test.each(short)("%s that is truncated anywhere is refused", async (name) => {
    const { bytes } = soundOf(name);
    const begin = name.endsWith("mp3") ? 2000 : 300;
    for (let i = 0; i < 40; i++) {
      const length = begin + Math.floor(((bytes.length - 1 - begin) * i) / 39);
      expect(await faultOf(bytes.subarray(0, length))).toBe(damaged("it is cut off"));
    }
  });

  test("whose last frames or pages are missing is refused", async () => {
    const constant = soundOf("constant.mp3").bytes;
    let at = 0;
    for (let next = 0; next < constant.length; ) {
      at = next;
      next = constant.indexOf(0xff, at + 400);
      while (next >= 0 && constant[next + 1] !== constant[1]) next = constant.indexOf(0xff, next + 1);
      if (next < 0) break;
    }
    expect(at).toBeGreaterThan(constant.length / 2);
    expect(await faultOf(constant.subarray(0, at))).toBe(damaged("it is cut off"));
    for (const name of ["44100-2.ogg", "48000-2.opus"]) {
      const { bytes } = soundOf(name);
      const last = [...pagesOf(bytes)].at(-1)?.bytes.length ?? 0;
      expect(await faultOf(bytes.subarray(0, -last))).toBe(damaged("it is cut off"));
    }
  });

  test("with a changed byte in a page, or with a missing page, is refused", async () => {
    for (const name of ["44100-2.ogg", "long.opus"]) {
      const changed = Uint8Array.from(soundOf(name).bytes);
      changed[changed.length - 200] = (changed[changed.length - 200] ?? 0) ^ 1;
      expect(await faultOf(changed)).toBe(damaged("a page has another checksum"));
    }
    const pages = [...pagesOf(soundOf("long.ogg").bytes)].map(({ bytes }) => bytes);
    expect(await faultOf(Buffer.concat(pages.toSpliced(3, 1)))).toBe(damaged("a page is missing"));
    expect(await faultOf(Buffer.concat([...pages, ...pages]))).toBe(damaged("it has several streams"));
  });

  test("that has a page without packets is refused at once: millions of such pages would block the thread", async () => {
    const pages = [...pagesOf(soundOf("long.ogg").bytes)].map(({ bytes }) => bytes);
    const empty = Buffer.from(pages[2]?.subarray(0, 27) ?? []);
    empty.writeUInt8(0, 5);
    empty.writeUInt32LE(3, 18);
    empty.writeUInt8(0, 26);
    expect(await faultOf(Buffer.concat([...pages.slice(0, 3), empty]))).toBe(damaged("a page is empty"));
  });

  test("with bytes between frames is refused", async () => {
    const { bytes } = soundOf("constant.mp3");
    const second = bytes.indexOf(0xff, 400);
    const longer = Buffer.concat([bytes.subarray(0, second + 417), Buffer.from("?"), bytes.subarray(second + 417)]);
    expect(await faultOf(longer)).toMatch(/byte \d+ begins no frame of MP3$/);
  });

  test("in MP3 is read no further than its field allows: the headers of a large file would hold the thread", async () => {
    const { bytes } = soundOf("long.mp3");
    const damagedEnd = Buffer.concat([bytes.subarray(0, -400), Buffer.alloc(400, "?")]);
    expect(await faultOf(damagedEnd)).toMatch(/begins no frame of MP3$/);
    const field = audio({ maxSeconds: 5, decoders });
    expect(await faultOf(damagedEnd, field)).toMatch(/^file_too_large: .* has more than 5 seconds/);
  });

  test.each(["long.mp3", "long.ogg", "long.opus"])(
    "%s that is longer than its field allows is refused before it is decoded",
    async (name) => {
      const [mp3, vorbis] = [counted(decoders.mp3), counted(decoders.vorbis)];
      const field = audio({ maxSeconds: 5, decoders: { mp3: mp3.make, vorbis: vorbis.make } });
      expect(await faultOf(soundOf(name).bytes, field)).toMatch(
        /^file_too_large: https:\/\/example\.com\/a has (?:[78]\.\d|more than 5) seconds; this field takes at most 5$/,
      );
      expect([mp3.parts, vorbis.parts]).toEqual([0, 0]);
    },
  );

  test.each(["long.ogg", "long.opus"])(
    "%s with more samples than its pages say is decoded so far only",
    async (name) => {
      const { bytes } = soundOf(name);
      const pages = [...pagesOf(bytes)].length;
      const vorbis = counted(decoders.vorbis);
      const lying = withPages(bytes, (page, index) => index > 1 && page.setBigInt64(6, 48_000n, true));
      const fault = await faultOf(lying, audio({ decoders: { vorbis: vorbis.make } }));
      if (name === "long.ogg") {
        expect(fault).toBe(damaged("it has more samples than its header says"));
        expect(vorbis.parts).toBeLessThan(pages / 2);
        expect(vorbis.freed).toBe(1);
      } else expect((await audioOf(lying).samples()).length).toBeLessThan(48_000);
    },
  );

  test("that decodes to gigabytes is refused before any memory is taken", async () => {
    // Silence as MPEG-2 frames with 8 kbit/s: 24 bytes for 576 samples each.
    const frame = Uint8Array.of(0xff, 0xf3, 0x14, 0xc4, ...new Uint8Array(20));
    const bytes = Buffer.alloc(24 * 1_000_000, frame);
    const mp3 = counted(decoders.mp3);
    const own = { mp3: mp3.make };
    expect(await faultOf(bytes, audio({ decoders: own }))).toContain(" seconds; this field takes at most 600");
    expect(await faultOf(bytes, audio({ decoders: own, maxSeconds: 1e6 }))).toContain("bytes of memory as samples");
    expect(mp3.parts).toBe(0);
  });

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
    expect(await faultOf(soundOf("16000-1.mp3").bytes, field)).toBe(damaged("its decoder failed"));
    expect(decoder.freed).toBe(1);
  });

  test("with random damage is read, or fails with a message for clients", async () => {
    const files = [...short, "48000-6.ogg", "48000-6.opus"].map((name) => soundOf(name).bytes);
    const damage = fc.constantFrom(...files).chain((file) =>
      fc.record({
        file: fc.constant(file),
        changes: fc.array(fc.tuple(fc.nat(file.length - 1), fc.nat(255)), { maxLength: 6 }),
        isInHead: fc.boolean(),
        isRepaired: fc.boolean(),
      }),
    );
    await fc.assert(
      fc.asyncProperty(damage, async ({ file, changes, isInHead, isRepaired }) => {
        let bytes = Uint8Array.from(file);
        for (const [at, value] of changes) bytes[isInHead ? at % 300 : at] = value;
        if (isRepaired) bytes = repaired(bytes);
        expect(await faultOf(bytes)).toSatisfy(
          (fault) => fault === undefined || /^file_(invalid|too_large): /.test(fault),
        );
      }),
      { numRuns: 150 },
    );
  });
});
