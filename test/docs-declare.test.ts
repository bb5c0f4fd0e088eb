/** The models of docs/declare.md build, and a server runs them. */
import { expect } from "bun:test";
import { z } from "zod";
import { Audio, Image } from "../src/index.ts";
import files from "./data/audio-files.json";
import { bytesOfUri } from "./helpers/data-uri.ts";
import { testPageModels } from "./helpers/page-models.ts";

const white = (
  await Image.fromPixels({ data: new Uint8Array(4 * 5 * 3).fill(255), width: 5, height: 4, channels: 3 })
).toDataUri();
const light = Array.from({ length: 100 }, (_, i) => i / 100);

testPageModels("docs/declare.md", {
  "guide/spam.ts": {
    input: { text: "win now" },
    files: { "words.txt": "win\nfree\nnow\n" },
    check: (output) => expect(output).toEqual({ isSpam: true }),
  },
  "guide/species.ts": {
    input: { photograph: white },
    check(output) {
      // In a white picture all pixels of a channel are equal, so the test's network gives equal scores, and the first
      // five indices win.
      const { best } = z.object({ best: z.array(z.object({ index: z.int(), score: z.number() })) }).parse(output);
      expect(best.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4]);
      const means = [0.485, 0.456, 0.406].map((mean, i) => (1 - mean) / ([0.229, 0.224, 0.225][i] ?? 1));
      expect(best[0]?.score).toBeCloseTo((means[0] ?? 0) + (10 / 3) * means.reduce((a, b) => a + b), 3);
    },
  },
  "guide/sharpen.ts": {
    input: { picture: white },
    async check(output) {
      const { sharper } = z.object({ sharper: z.string() }).parse(output);
      expect(sharper).toStartWith("data:image/webp;base64,");
      const picture = new Image({ bytes: bytesOfUri(sharper), mediaType: "image/webp" });
      expect(await picture.size()).toEqual({ width: 5, height: 4 });
    },
  },
  "guide/denoise-any.ts": {
    // The test for compressed sounds is test/long/compressed-audio-model.test.ts.
    input: { speech: `data:audio/wav;base64,${files["wav PCM_16"].file}` },
    async check(output) {
      const { clean } = z.object({ clean: z.string() }).parse(output);
      const { rate, length } = await new Audio({ bytes: bytesOfUri(clean), mediaType: "audio/wav" }).samples();
      expect([rate, length]).toEqual([16_000, Math.ceil((300 * 16_000) / 22_050)]);
    },
  },
  "guide/stars.ts": {
    input: { light },
    check: (output) => expect(output).toMatchObject({ planets: [0, expect.closeTo(0.02), expect.closeTo(0.04)] }),
  },
  "guide/mood.ts": {
    input: { text: "good  unknown bad" },
    files: { "words.txt": "good\nbad" },
    check: (output) => expect(output).toEqual({ mood: 3, ofEachWord: [1, 0, 2] }),
  },
  "guide/faces.ts": {
    input: { photograph: white },
    check(output) {
      const { ages } = z.object({ ages: z.array(z.number()) }).parse(output);
      expect(ages.length).toBe(8);
    },
  },
  "guide/teller.ts": {
    input: { begin: "a" },
    check: (output) =>
      expect(output).toEqual({ text: String.fromCharCode(...Array.from({ length: 40 }, (_, i) => 98 + i)) }),
  },
  "guide/planets.ts": {
    input: { light },
    check: (output) => expect(output).toEqual({ planet: expect.closeTo(0.495) }),
  },
});
