import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeDataUrl } from "../src/author/data-url.ts";
import { failureOf } from "./helpers/failure.ts";

const decode = (uri: string, maxBytes = 1000) => decodeDataUrl(uri, maxBytes);
const textOf = (uri: string) => new TextDecoder().decode(decode(uri).bytes);

describe("a data URI", () => {
  test.each([
    ["data:,hello", "text/plain", "hello"],
    ["data:,", "text/plain", ""],
    ["data:;charset=utf-8,a%20b", "text/plain", "a b"],
    ["data:text/html,%3Cb%3E", "text/html", "<b>"],
    ["data:text/plain,a,b;c", "text/plain", "a,b;c"],
    ["data:text/plain,héé", "text/plain", "héé"],
    ["data:text/plain,h%C3%A9", "text/plain", "hé"],
    ["data:text/plain;base64,aGVsbG8=", "text/plain", "hello"],
    ["DATA:Image/PNG;BASE64,aGVsbG8=", "image/png", "hello"],
    ["data:;base64,aGVsbG8", "text/plain", "hello"],
    ["data:a/b;x=y;base64,aGVs\r\n bG8=", "a/b", "hello"],
    ["data:a/b;base64,aGVsbG8%3D", "a/b", "hello"],
    ["data:image/svg+xml;charset=utf-8,<svg/>", "image/svg+xml", "<svg/>"],
  ])("%p is decoded", async (uri, mediaType, text) => {
    expect(decode(uri).mediaType).toBe(mediaType);
    expect(textOf(uri)).toBe(text);
  });

  test.each([
    ["data:text/plain", "there is no comma"],
    ["data:nonsense,abc", '"nonsense" is not a media type'],
    ["data:text/plain,100%", "written %25"],
    ["data:text/plain,%4", "written %25"],
    ["data:text/plain,%zz", "written %25"],
    ["data:text/plain,a#b", "written %23"],
    ["data:a/b;base64,aGVsbG8==", "wrong padding"],
    ["data:a/b;base64,aGVsb", "cut off"],
    ["data:a/b;base64,aG*sbG8=", "not base64"],
    ["data:a/b;base64,aG=sbG8=", "not base64"],
    ["data:a/b;base64,aG-_bG8=", "not base64"],
    ["data:a/b;base64,aGVłbG8=", "not base64"],
    ["data:a/b;base64,====", "not base64"],
    ["data:a/b;base64,aGVsbG8%", "written %25"],
  ])("%p is refused, and the message names the fault", async (uri, message) => {
    const error = await failureOf(() => decode(uri));
    expect(error.code).toBe("file_invalid");
    expect(error.message).toContain(message);
  });

  test("returns any bytes, from base64 and from percent-encoding", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const base64 = Buffer.from(bytes).toString("base64");
        const percent = Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
        for (const uri of [
          `data:a/b;base64,${base64}`,
          `data:a/b;base64,${encodeURIComponent(base64)}`,
          `data:,${percent}`,
        ]) {
          expect(Buffer.from(decode(uri).bytes).equals(bytes)).toBe(true);
        }
      }),
    );
  });

  test("accepts and refuses the same base64 as Uint8Array.fromBase64", () => {
    const nearlyBase64 = fc.string({ unit: fc.constantFrom(..."AZaz09+/+/== -_*łé\n"), maxLength: 12 });
    fc.assert(
      fc.property(nearlyBase64, (text) => {
        let expected: Uint8Array | undefined;
        try {
          expected = Uint8Array.fromBase64(text);
        } catch {
          expect(() => decode(`data:;base64,${text}`)).toThrow("data URI");
          return;
        }
        expect([...decode(`data:;base64,${text}`).bytes]).toEqual([...expected]);
      }),
      { numRuns: 5000 },
    );
  });

  test("must respect the size limit, in base64 and in percent-encoding", async () => {
    const exact = new Uint8Array(1000);
    const larger = new Uint8Array(1001);
    const notations = [
      (bytes: Uint8Array) => `data:;base64,${Buffer.from(bytes).toString("base64")}`,
      (bytes: Uint8Array) => `data:;base64,${Buffer.from(bytes).toString("base64").replace(/.{76}/g, "$&\r\n")}`,
      (bytes: Uint8Array) => `data:;base64,${encodeURIComponent(Buffer.from(bytes).toString("base64"))}`,
      (bytes: Uint8Array) => `data:,${"%00".repeat(bytes.length)}`,
      (bytes: Uint8Array) => `data:,${"0".repeat(bytes.length)}`,
    ];
    for (const notation of notations) {
      expect(decode(notation(exact)).bytes.length).toBe(1000);
      expect((await failureOf(() => decode(notation(larger)))).code).toBe("file_too_large");
    }
  });

  test("is shortened in messages", async () => {
    const error = await failureOf(() => decode(`data:image/png;base64,${"A".repeat(100_000)}`));
    expect(error.message).toBe("data:image/png;base64,AAAAAAAAAAAAAAAAAA… has more than 1000 bytes");
  });
});
