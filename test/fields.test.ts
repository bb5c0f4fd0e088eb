import { describe, expect, test } from "bun:test";
import { file, image } from "../src/author/fields.ts";
import { filesOf, ModelFile } from "../src/author/file.ts";
import { Image } from "../src/author/media.ts";
import { ndarray } from "../src/author/ndarray.ts";
import { float32 } from "../src/author/tensor.ts";
import { wireSchema } from "../src/author/wire-schema.ts";
import * as z from "../src/author/z.ts";
import { SconceError } from "../src/base/errors.ts";

const pixel = "data:image/png;base64,AAAA";
const messageOf = (schema: z.ZodType, value: unknown) => z.safeParse(schema, value).error?.issues[0]?.message;

describe("the value of a file field in JSON", () => {
  test.each([
    ["an image", image()],
    ["a file", file({ mediaTypes: ["audio/wav"] })],
    ["a list's image", z.array(image().optional())],
  ])("is described for %s as what it is: a URL comes in, a data URI goes out", (_, schema) => {
    expect(JSON.stringify(wireSchema(schema, "input"))).toMatch(/"description":"URL of/);
    for (const field of ["output", "demo.output"]) {
      expect(JSON.stringify(wireSchema(schema, field))).toMatch(/"description":"Data URI of/);
    }
  });

  test("has the author's description, if there is one", () => {
    expect(wireSchema(image().describe("A heat map"), "output").description).toBe("A heat map");
  });

  test("http, https and data URLs in an input become objects that keep their URL", () => {
    for (const url of ["http://a.example/x.png", "HTTPS://a.example/x?y=1", pixel, "data:,text"]) {
      const decoded = z.decode(image(), url);
      expect(decoded).toBeInstanceOf(Image);
      expect(decoded.url).toBe(url);
    }
    expect(z.decode(file(), pixel)).not.toBeInstanceOf(Image);
  });

  test("any other value in an input is a fault with expected value, received value and fix", () => {
    const expected = "Expected the URL of an image (http://…, https://… or data:…;base64,…), received ";
    expect(messageOf(image(), 3)).toBe(`${expected}number`);
    expect(messageOf(image(), null)).toBe(`${expected}null`);
    expect(messageOf(image(), "samples/3.png")).toBe(
      `${expected}"samples/3.png": it has no scheme; a local file can be sent as a data URI`,
    );
    expect(messageOf(image(), "file:///etc/passwd")).toBe(
      `${expected}"file:///etc/passwd": the scheme file is not accepted; use http, https or data`,
    );
    expect(messageOf(image(), "https://")).toBe(`${expected}"https://": it cannot be read as a URL`);
    expect(messageOf(image(), "data:image/png")).toStartWith(`${expected}"data:image/png": `);
    expect(messageOf(file(), `x${"y".repeat(1e6)}`)?.length).toBeLessThan(300);
  });

  test("files in outputs become data URIs", () => {
    const output = z.object({ images: z.array(image()), sound: file().optional() });
    const made = new Image({ bytes: Uint8Array.of(1, 2, 3), mediaType: "image/png" });
    const sound = new ModelFile({ bytes: Uint8Array.of(4), mediaType: 'Audio/WAV; codecs="1"; note="a, b"' });
    expect(z.encode(output, { images: [made], sound })).toEqual({
      images: ["data:image/png;base64,AQID"],
      sound: "data:audio/wav;codecs=1;base64,BA==",
    });
  });

  test("an output that is not an image is a fault with the fix", () => {
    const output: z.ZodType = z.object({ image: image() });
    const { error } = z.safeEncode(output, { image: "x.png" });
    expect(error?.issues[0]?.message).toBe("Expected an Image; make one with Image.fromPixels");
  });

  test.each([image(), ndarray(float32(2))])("a wrong value is a fault inside a list with limits, too (%#)", (field) => {
    const { error } = z.safeEncode(z.object({ list: z.array(field).max(3) }), { list: [3 as never] });
    expect(error?.issues).toMatchObject([{ path: ["list", 0], message: expect.stringMatching(/; make one with /) }]);
  });

  test("the JSON Schema describes the JSON form, with the author's additions", () => {
    const schema = z.object({
      photo: image().describe("A cat."),
      sound: file({ mediaTypes: ["audio/wav"] }).optional(),
    });
    expect(z.toJSONSchema(schema, { io: "input" })).toMatchObject({
      properties: {
        photo: { type: "string", format: "uri", "x-sconce-file": { mediaTypes: ["image/*"] }, description: "A cat." },
        sound: { type: "string", format: "uri", "x-sconce-file": { mediaTypes: ["audio/wav"] } },
      },
      required: ["photo"],
      additionalProperties: false,
    });
  });
});

describe("files", () => {
  test("have no bytes before the server has fetched them", () => {
    const remote = z.decode(file(), "https://a.example/x.wav?token=1");
    expect(() => remote.bytes).toThrow(SconceError);
    expect(() => remote.mediaType).toThrow("https://a.example/x.wav has not been fetched");
    remote.fill({ bytes: Uint8Array.of(1), mediaType: "audio/wav" });
    expect(remote.bytes).toEqual(Uint8Array.of(1));
    expect(remote.toDataUri()).toBe("data:audio/wav;base64,AQ==");
  });

  test("without bytes are sent back as their URL", () => {
    expect(z.encode(image(), z.decode(image(), pixel))).toBe(pixel);
  });

  test("above the field's size limit are refused, with both sizes", () => {
    const remote = z.decode(file({ maxBytes: 2 }), pixel);
    expect(() => remote.fill({ bytes: new Uint8Array(3), mediaType: "" })).toThrow(
      "The file has 3 bytes; this field takes at most 2",
    );
  });

  test("of another media type are refused, unless their server does not know the type", () => {
    const field = file({ mediaTypes: ["Audio/*", "video/mp4"] });
    const fill = (mediaType: string) => z.decode(field, pixel).fill({ bytes: new Uint8Array(1), mediaType });
    expect(() => fill("image/png")).toThrow("The file is image/png; this field takes audio/*, video/mp4");
    for (const taken of ["audio/ogg", "VIDEO/mp4; x=y", "application/octet-stream", "binary/octet-stream", ""])
      fill(taken);
  });

  test("have the limits of their field", () => {
    expect(z.decode(image({ maxPixels: 9 }), pixel).limits).toEqual({
      maxBytes: 32 * 2 ** 20,
      maxPixels: 9,
      maxSeconds: 600,
      mediaTypes: [],
    });
  });

  test("are found in decoded inputs at any depth, in the order of the input", () => {
    const [a, b, c] = [1, 2, 3].map((byte) => new ModelFile({ bytes: Uint8Array.of(byte), mediaType: "x/y" }));
    const input = { a, list: [[0.5, { b }], new Float32Array(4), null], text: "t", when: new Date(0), last: [c] };
    expect(filesOf(input)).toEqual([a, b, c] as ModelFile[]);
    expect(filesOf(a)).toEqual([a] as ModelFile[]);
    expect(filesOf([1, 2, 3])).toEqual([]);
  });
});
