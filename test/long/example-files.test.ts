/**
 * Unreachable files, and files that are no pictures, in inputs of the examples. Only the input with such a file fails,
 * with its index and a reason.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Family, paths } from "../helpers/family.ts";
import { hold } from "../helpers/hold.ts";
import { notPictures } from "../helpers/not-pictures.ts";
import { type RawServer, rawServer } from "../helpers/raw-server.ts";
import { storeWith, type TestServer, type TestStore } from "../helpers/server.ts";

const examples = join(import.meta.dir, "../../examples");
const read = (name: string) => Bun.file(join(import.meta.dir, "..", name)).bytes();
const plain = await read("data/digits/plain.png");
const jpeg = await read("data/digits/progressive.jpg");
const huge = await read("data/media/huge.png");

const asData = (bytes: Uint8Array, mediaType = "image/png") => `data:${mediaType};base64,${bytes.toBase64()}`;
/** The good picture is small, so that upscaling is fast. */
const good = { image: asData(await read("models/picture/white.png")) };
const unreadable = /^The file is not an image that can be read; send JPEG, PNG, WebP, GIF or BMP$/;
const broken = /^The file is an image that is damaged or cut off$|^The file is not an image that can be read; /;

/** Files in data URIs: name, URI, and the reason for which the input fails. */
const inData: readonly (readonly [name: string, image: string, reason: RegExp])[] = [
  ...Object.entries(notPictures).map(
    ([name, bytes]) =>
      [name, asData(bytes), /^(a|only)\b.*(GIF|PNG|JPEG|WebP|BMP)/.test(name) ? broken : unreadable] as const,
  ),
  ["sound that says so", asData(notPictures["WAV sound"] ?? plain, "audio/wav"), unreadable],
  ["a text that says so", "data:,a%20seven", unreadable],
  ["an empty file", "data:image/png;base64,", /^The file is empty and not an image/],
  ["an empty text", "data:,", /^The file is empty and not an image/],
  ["a PNG that is cut off", asData(plain.subarray(0, plain.length - 200)), broken],
  ["a JPEG that is cut off", asData(jpeg.subarray(0, jpeg.length - 200)), broken],
  [
    "30,000 × 30,000 pixels",
    asData(huge),
    /^The file is an image of 30000 × 30000 pixels; this field takes at most \d+/,
  ],
];

const http = (head: string, body: string | Uint8Array = "") => ({ head, body });

/**
 * Answers of a loopback server to the fetch of a file: name, answer, and the reason for which the input fails. The
 * reason contains nothing that the server sent.
 */
const answers: readonly (readonly [name: string, answer: ReturnType<typeof http>, reason: RegExp])[] = [
  ["that is not there", http("404 Not Found", "secret"), /^URL answered 404$/],
  ["of a server that fails", http("500 Internal Server Error", "secret"), /^URL answered 500$/],
  ["that is a page", http("200 OK\r\nContent-Type: text/html", "<p>secret"), /^URL is not an image that can be read/],
  ["that is empty", http("200 OK\r\nContent-Type: image/png\r\nContent-Length: 0"), /^URL is empty and not an image/],
  ["that is cut off before its length", http(`200 OK\r\nContent-Length: 9999`, plain), /^URL broke off before its end/],
  [
    "whose length cuts it off",
    http("200 OK\r\nContent-Length: 300", plain),
    /^URL is an image that is damaged or cut off$/,
  ],
  ["that says it is too long", http("200 OK\r\nContent-Length: 33554433", plain), /^URL has more than 33554432 bytes$/],
  [
    "that is too long without saying so",
    http("200 OK", new Uint8Array(2 ** 25 + 1)),
    /^URL has more than 33554432 bytes$/,
  ],
  ["of too many pixels", http("200 OK", huge), /^URL is an image of 30000 × 30000 pixels; /],
  ["that is elsewhere for ever", http("302 Found\r\nLocation: /again"), /^URL redirects more than 3 times$/],
  ["that is elsewhere, nowhere said", http("302 Found"), /^URL answered 302 without a usable Location$/],
  ["that is a file of the server", http("302 Found\r\nLocation: file:///etc/passwd"), /file: URLs are not taken/],
  ["of a server that speaks no HTTP", http("what?"), /^URL could not be fetched/],
];

let store: TestStore;

beforeAll(async () => {
  store = await storeWith(join(examples, "digits"), join(examples, "upscale"));
});

afterAll(() => store[Symbol.asyncDispose]());

describe.each(["digits", "upscale"])("%s", (name) => {
  let server: TestServer;
  /** A server with default settings, which refuses private addresses. */
  let strict: TestServer;
  let files: RawServer;

  beforeAll(async () => {
    server = await store.serve(name, { allowPrivateUrls: true, fetchTimeout: 0.5 });
    strict = await store.serve(name);
    files = await rawServer((socket, request) => {
      const index = Number(/^GET \/(\d+)/.exec(request)?.[1] ?? Number.NaN);
      const [, { head, body }] = answers[index] ?? ["", http("302 Found\r\nLocation: /again"), / /];
      socket.write(`HTTP/1.1 ${head}\r\nConnection: close\r\n\r\n`);
      socket.end(body);
    });
  });

  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await strict[Symbol.asyncDispose]();
    await files[Symbol.asyncDispose]();
  });

  describe.each(paths)("POST %s", (path) => {
    /**
     * Runs a bad input between two good ones, beside another prediction that must succeed. @returns why the bad input
     * failed
     */
    async function reasonFor(image: string, to = server): Promise<string> {
      const [body, neighbour] = await Promise.all([
        new Family(to.client, path).predict([good, { image }, good]),
        to.client.predict([good, good]),
      ]);
      expect(neighbour).toMatchObject({ status: "success", outputs: [expect.anything(), expect.anything()] });
      expect(body.status).toBe("failed");
      const message = body.error_message ?? "";
      if (path === "/demo") {
        expect(message).toStartWith("input 1: ");
      } else {
        expect(message).toStartWith("1 of 3 inputs failed: input 1: ");
        expect(body.errors).toEqual([{ index: 1, message: message.slice("1 of 3 inputs failed: input 1: ".length) }]);
      }
      expect(message).not.toContain("secret");
      return message.slice(message.indexOf("input 1: ") + "input 1: ".length);
    }

    test.each(inData)("fails for %s", async (_, image, reason) => {
      expect(await reasonFor(image)).toMatch(reason);
    });

    test.each(answers.map(([what, , reason], i) => [what, i, reason] as const))(
      "fails for a file %s",
      async (_, i, reason) => {
        const url = `http://127.0.0.1:${files.port}/${i}`;
        expect((await reasonFor(`${url}?key=secret`)).replaceAll(url, "URL")).toMatch(reason);
      },
    );

    test("fails for a file that does not arrive in time", async () => {
      await using gate = hold();
      expect(await reasonFor(gate.url("slow"))).toMatch(/\/slow was not there within 0\.5 s$/);
    });

    test("fails for a file of a server that refuses connections", async () => {
      const gone = await rawServer(() => {});
      await gone[Symbol.asyncDispose]();
      expect(await reasonFor(`http://127.0.0.1:${gone.port}/`)).toContain("could not be fetched (ECONNREFUSED)");
    });

    test.each(["http://localhost/a.png", "http://127.0.0.1/", "http://2130706433/", "http://[::ffff:10.0.0.1]/"])(
      "fails for a file at the private address %s",
      async (url) => {
        expect(await reasonFor(url, strict)).toContain("has no public address");
      },
    );

    test.each(["white.png", "/etc/passwd", "file:///etc/passwd", "ftp://example.com/a.png", "data:image/png", ""])(
      "refuses %p, which is not a file URL",
      async (image) => {
        const problem = await new Family(server.client, path).refused([good, { image }]);
        expect(problem).toMatchObject({ status: 422, type: "urn:sconce:problem:inputs_invalid" });
        expect(problem.errors?.map(({ pointer }) => pointer)).toEqual(["/1/image"]);
      },
    );

    test("continues", async () => {
      expect((await new Family(server.client, path).predict([good])).status).toBe("success");
      expect(await server.client.metric("sconce_predictions_active")).toBe(0);
      expect(await server.client.metric("sconce_queued_items")).toBe(0);
    });
  });
});
