import { describe, expect, test } from "bun:test";
import { canonicalize, side } from "../examples/digits/canonicalize.ts";
import { greyPicture } from "../examples/digits/grey-picture.ts";
import { heldOutDigits, python } from "../examples/digits/heldout.ts";
import { Image } from "../src/author/media.ts";
import { greatestDifference } from "./helpers/tensors.ts";

/** Prepares a picture as the model.ts of the example digits does. */
async function canonical(image: Image): Promise<Float32Array> {
  return canonicalize(await greyPicture(image));
}

/** Largest difference between pixels that TypeScript and Python have prepared, in units of 1/255. */
const differenceOf = (ours: Float32Array, theirs: string) =>
  greatestDifference(
    ours.map((value) => value * 255),
    Buffer.from(theirs, "hex"),
  );

describe("the digits example prepares pictures as in its training", () => {
  for (const [name, expected] of Object.entries(python.samples)) {
    test(`samples/${name}`, async () => {
      const bytes = await Bun.file(new URL(`../examples/digits/samples/${name}`, import.meta.url)).bytes();
      const pixels = await canonical(new Image({ bytes, mediaType: "image/png" }));
      expect(differenceOf(pixels, expected)).toBeLessThanOrEqual(3);
    });
  }

  test("held-out digits", async () => {
    const digits = await heldOutDigits();
    for (const [i, expected] of python.heldout.entries()) {
      const image = digits[i]?.image;
      expect(image).toBeDefined();
      // Python's values are rounded to bytes, which is half a unit.
      if (image) expect(differenceOf(await canonical(image), expected)).toBeLessThanOrEqual(0.51);
    }
  });

  test("ink on any paper, at any position and size, gives the same pixels", () => {
    const draw = (size: number, at: number, length: number, paper: number, ink: number) => {
      const data = new Uint8Array(size * size).fill(paper);
      for (let i = 0; i < length; i++) for (let j = 0; j < length / 4; j++) data[(at + i) * size + at + j] = ink;
      return canonicalize({ data, width: size, height: size });
    };
    const reference = draw(40, 4, 16, 255, 0);
    expect(draw(40, 20, 16, 0, 255)).toEqual(reference);
    expect(draw(90, 9, 64, 200, 60)).toEqual(reference);
  });

  test("a blank picture and a picture of one pixel give pixels too", () => {
    expect(canonicalize({ data: new Uint8Array(9).fill(7), width: 3, height: 3 })).toEqual(
      new Float32Array(side * side),
    );
    expect(canonicalize({ data: Uint8Array.of(9), width: 1, height: 1 })).toEqual(new Float32Array(side * side));
  });
});
