/**
 * Kinds of pictures as inputs of the served example digits: animations (the first frame counts), CMYK and progressive
 * JPEGs, PNGs with 16 bits, with shades of a palette and with transparency, and an EXIF orientation. media.test.ts
 * compares the pixels of further kinds.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Image, type Pixels } from "../src/author/media.ts";
import { Client } from "./helpers/client.ts";
import { fixture } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";

const data = join(import.meta.dir, "data");
const examples = join(import.meta.dir, "../examples");

const demonstrated = /^(progressive|plain|rgba16|orientation-6)/;

const store = fixture(() => storeWith(join(examples, "digits")));
const digits = fixture(() => store.serve("digits"));

/** A data URI that always claims to be a JPEG: sconce must look at the content. */
const asData = (bytes: Uint8Array) => `data:image/jpeg;base64,${bytes.toBase64()}`;

async function fromData(uri: unknown): Promise<Pixels> {
  const bytes = Buffer.from(String(uri).replace(/^data:image\/png;base64,/, ""), "base64");
  return new Image({ bytes, mediaType: "image/png" }).pixels();
}

function scoreOfSeven(output: Readonly<Record<string, unknown>> = {}): number {
  return Array.isArray(output.scores) ? Number(output.scores[7]) : 0;
}

describe.each(["/predictions", "/demo"])("POST %s", (path) => {
  test("the example digits reads the same seven in every kind of picture", async () => {
    const all = readdirSync(join(data, "digits")).sort();
    expect(all.length).toBeGreaterThan(9);
    // The demo of digits runs the network again for every covered part of a picture. That is slow, so only some
    // pictures go there.
    const names = path === "/demo" ? all.filter((name) => demonstrated.test(name)) : all;
    const files = await Promise.all(names.map((name) => Bun.file(join(data, "digits", name)).bytes()));
    const body = await new Client(digits.url, path).predict(files.map((bytes) => ({ image: asData(bytes) })));
    expect(body.error_message).toBeUndefined();
    const scores = new Map(names.map((name, i) => [name, scoreOfSeven(body.outputs?.[i])]));
    const plain = scores.get("plain.png") ?? 0;
    expect(plain).toBeGreaterThan(0.8);
    // With few colours or only black and white, the strokes look a little different, so the score of the digit may
    // differ by 0.12.
    const strange = [...scores].filter(([, score]) => Math.abs(score - plain) > 0.12);
    expect(strange).toEqual([]);
    expect(body.outputs?.map(({ digit }) => digit)).toEqual(names.map(() => 7));
    for (const output of body.demo_outputs ?? []) {
      expect(output.digit).toBe(7);
      // The heat map has the proportions of the upright picture (40 × 48).
      const { width, height } = await fromData(output.heatMap);
      expect([width, height]).toEqual([213, 256]);
    }
  });
});
