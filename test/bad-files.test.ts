/** Inputs whose file is unreachable or has the wrong type: only that input fails, and with a reason. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Client } from "./helpers/client.ts";
import { dataUri } from "./helpers/data-uri.ts";
import { fixture } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { notPictures } from "./helpers/not-pictures.ts";
import { rawServer } from "./helpers/raw-server.ts";
import { storeWith } from "./helpers/server.ts";

const read = (name: string) => Bun.file(join(import.meta.dir, name)).bytes();
const white = await read("models/picture/white.png");
const plain = await read("data/media/rgb.png");
const jpeg = await read("data/media/progressive.jpg");
const huge = await read("data/media/huge.png");

const good = dataUri(white);
const unreadable = /^The file is not an image that can be read; send JPEG, PNG, WebP, GIF or BMP$/;
const broken = /^The file is an image that is damaged or cut off$|^The file is not an image that can be read; /;

/** Files in data URIs: name, URI, and the reason for which the input fails. */
const inData: readonly (readonly [name: string, image: string, reason: RegExp])[] = [
  ...Object.entries(notPictures).map(
    ([name, bytes]) =>
      [name, dataUri(bytes), /^(a|only)\b.*(GIF|PNG|JPEG|WebP|BMP)/.test(name) ? broken : unreadable] as const,
  ),
  ["sound that says so", dataUri(notPictures["WAV sound"] ?? plain, "audio/wav"), unreadable],
  ["a text that says so", "data:,a%20seven", unreadable],
  ["an empty file", "data:image/png;base64,", /^The file is empty and not an image/],
  ["an empty text", "data:,", /^The file is empty and not an image/],
  ["a PNG that is cut off", dataUri(plain.subarray(0, plain.length - 200)), broken],
  ["a JPEG that is cut off", dataUri(jpeg.subarray(0, jpeg.length - 200)), broken],
  [
    "30,000 × 30,000 pixels",
    dataUri(huge),
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
  ["that is cut off before its length", http("200 OK\r\nContent-Length: 9999", white), /^URL broke off before its end/],
  [
    "whose length cuts it off",
    http("200 OK\r\nContent-Length: 300", plain),
    /^URL is an image that is damaged or cut off$/,
  ],
  ["that says it is too long", http("200 OK\r\nContent-Length: 100001", white), /^URL has more than 100000 bytes$/],
  ["that is too long without saying so", http("200 OK", new Uint8Array(100_001)), /^URL has more than 100000 bytes$/],
  ["of too many pixels", http("200 OK", huge), /^URL is an image of 30000 × 30000 pixels; /],
  ["that is elsewhere for ever", http("302 Found\r\nLocation: /again"), /^URL redirects more than 3 times$/],
  ["that is elsewhere, nowhere said", http("302 Found"), /^URL answered 302 without a usable Location$/],
  ["that is a file of the server", http("302 Found\r\nLocation: file:///etc/passwd"), / file: URLs/],
  ["of a server that speaks no HTTP", http("what?"), /^URL could not be fetched/],
];

const store = fixture(() => storeWith("picture"));
const server = fixture(() => store.serve("picture", { allowPrivateUrls: true, fetchTimeout: 0.3 }));
/** A server with default settings, which refuses to fetch from private addresses. */
const strict = fixture(() => store.serve("picture"));

/** Sends an input with this file between two good inputs, whose outputs must be right. @returns why the input failed */
async function faultOf(image: string, client: Client = server.client): Promise<string> {
  const body = await client.predict([{ image: good }, { image }, { image: good }]);
  expect(body.status).toBe("failed");
  expect(body.errors?.map(({ index }) => index)).toEqual([1]);
  expect(body.partial_outputs?.map((output) => output?.mean ?? null)).toEqual([[255, 255, 255], null, [255, 255, 255]]);
  expect((await client.predict([{ image: good }])).status).toBe("success");
  const message = body.errors?.[0]?.message ?? "";
  expect(body.error_message).toContain(message);
  return message;
}

const answer = (head: string, body: string | Uint8Array = "") =>
  rawServer((socket) => {
    socket.write(`HTTP/1.1 ${head}\r\nConnection: close\r\n\r\n`);
    socket.end(body);
  });

describe("a file", () => {
  test("is fetched", async () => {
    await using files = await answer(`200 OK\r\nContent-Type: image/png\r\nContent-Length: ${white.length}`, white);
    const body = await server.client.predict([{ image: `http://127.0.0.1:${files.port}/white.png` }]);
    expect(body.outputs).toEqual([
      { mean: [255, 255, 255], swatch: expect.stringMatching(/^data:image\/png;base64,/) },
    ]);
  });

  test("on a server that refuses connections fails its input", async () => {
    const files = await answer("200 OK");
    await files[Symbol.asyncDispose]();
    expect(await faultOf(`http://127.0.0.1:${files.port}/a.png`)).toContain("could not be fetched");
  });

  test("that does not arrive in time fails its input", async () => {
    await using gate = hold();
    expect(await faultOf(gate.url("slow.png"))).toContain("within 0.3 s");
  });

  test.each(answers)("%s fails its input", async (_, { head, body }, reason) => {
    await using files = await answer(head, body);
    const url = `http://127.0.0.1:${files.port}/`;
    const message = await faultOf(`${url}?key=secret`);
    expect(message).not.toContain("secret");
    expect(message.replaceAll(url, "URL")).toMatch(reason);
  });

  test.each(inData)("in a data URI (%s) fails its input", async (_, image, reason) => {
    expect(await faultOf(image)).toMatch(reason);
  });
});

describe("a private address", () => {
  test.each(["http://localhost/a.png", "http://169.254.169.254/latest/meta-data", "http://[::1]/a.png"])(
    "(%s) is not fetched",
    async (url) => {
      expect(await faultOf(url, strict.client)).toContain("has no public address");
    },
  );

  test("gets no connection", async () => {
    await using files = await answer("200 OK");
    await faultOf(`http://127.0.0.1:${files.port}/a.png`, strict.client);
    expect(files.connections).toBe(0);
  });
});

describe("a text that is not the URL of a file is refused with 422", () => {
  test.each([
    "white.png",
    "/etc/passwd",
    "file:///etc/passwd",
    "ftp://example.com/a.png",
    "javascript:alert(1)",
    "http:/one-slash",
    "http://",
    "data:image/png;base64",
    "data:image/png;base64,%%%",
    "data:image/png;base64,iVBOR",
    "data:image/png;base64,@@@@",
    "data:no media type;base64,AAAA",
    `data:image/png;base64,${"A".repeat(300_000)}@`,
    "",
  ])("(%s)", async (image) => {
    const problem = await server.client.refused([{ image: good }, { image }]);
    expect(problem.status).toBe(422);
    expect(problem.errors?.map(({ pointer }) => pointer)).toEqual(["/1/image"]);
  });

  test("a number is refused with 422", async () => {
    expect((await server.client.refused([{ image: 1 }])).errors?.[0]?.detail).toContain("received number");
  });
});

test("a client that leaves during a fetch ends the fetch", async () => {
  const asked = Promise.withResolvers<void>();
  await using files = await rawServer(() => asked.resolve());
  await using patient = await store.serve("picture", { allowPrivateUrls: true });
  const leaving = new AbortController();
  const url = `http://127.0.0.1:${files.port}/a.png`;
  const response = patient.client.post([{ image: url }], { Prefer: "wait" }, leaving.signal);
  await asked.promise;
  leaving.abort();
  await expect(response).rejects.toThrow();
  await files.closed();
});
